"""Compatibility module for plugins that import message readers and writers from singer_sdk.io_base.

It only re-exports names, such as `SingerReader` for `SimpleSingerReader`.
"""

from __future__ import annotations

from tap_core.protocols.singer.custom_message_reader import (
    GenericSingerReader as GenericSingerReader,
)
from tap_core.protocols.singer.custom_message_reader import SimpleSingerReader as SingerReader
from tap_core.protocols.singer.custom_message_writer import (
    GenericSingerWriter as GenericSingerWriter,
)
from tap_core.protocols.singer.custom_message_writer import SimpleSingerWriter as SingerWriter
from tap_core.singerlib.messages import SingerMessageType as SingerMessageType

__all__ = [
    "GenericSingerReader",
    "GenericSingerWriter",
    "SingerMessageType",
    "SingerReader",
    "SingerWriter",
]
