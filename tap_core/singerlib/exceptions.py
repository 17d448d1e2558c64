"""Re-exports of the errors in Singer messages, for compatibility with imports from singer_sdk."""

from __future__ import annotations

from tap_core.exceptions import InvalidInputLine as InvalidInputLine
from tap_core.exceptions import SingerError as SingerError
from tap_core.exceptions import SingerReadError as SingerReadError
