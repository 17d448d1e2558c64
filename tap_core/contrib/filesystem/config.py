"""Compatibility module for plugins that import ``singer_sdk.contrib.filesystem.config``.

It only re-exports names of `tap_core.filesystem.config`.
"""

from __future__ import annotations

from tap_core.filesystem.config import FTP as FTP
from tap_core.filesystem.config import SFTP as SFTP
