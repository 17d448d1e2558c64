"""Compatibility import path of singer_sdk for errors in messages."""

from __future__ import annotations

from tap_core.exceptions import InvalidInputLine as InvalidInputLine
from tap_core.exceptions import SingerError as SingerError
from tap_core.exceptions import SingerReadError as SingerReadError
