"""The import path of singer_sdk for what reads and writes messages, under its older names."""

from __future__ import annotations

from tap_core.protocols.singer.messages import SingerMessageType as SingerMessageType
from tap_core.protocols.singer.reading import GenericSingerReader as GenericSingerReader
from tap_core.protocols.singer.reading import SimpleSingerReader as SingerReader
from tap_core.protocols.singer.writing import GenericSingerWriter as GenericSingerWriter
from tap_core.protocols.singer.writing import SimpleSingerWriter as SingerWriter

__all__ = [
    "GenericSingerReader",
    "GenericSingerWriter",
    "SingerMessageType",
    "SingerReader",
    "SingerWriter",
]
