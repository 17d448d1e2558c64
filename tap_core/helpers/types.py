"""The import path of singer_sdk for records, contexts and paths."""

from __future__ import annotations

from tap_core.types import Context as Context
from tap_core.types import Record as Record
from tap_core.types import StrPath as StrPath
from tap_core.types import TapState as TapState
