"""The import path of singer_sdk for the settings of servers of files."""

from __future__ import annotations

from tap_core.filesystem.config import FTP as FTP
from tap_core.filesystem.config import SFTP as SFTP
