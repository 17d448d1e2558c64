"""The import path of singer_sdk for batch files of JSON Lines."""

from __future__ import annotations

from tap_core.batch.batchers import JSONLinesBatcher as JSONLinesBatcher
