"""Compatibility import path of singer_sdk; nothing is defined here.

The names are defined in `tap_core.filesystem.config`.
"""

from __future__ import annotations

from tap_core.filesystem.config import FTP as FTP
from tap_core.filesystem.config import SFTP as SFTP
