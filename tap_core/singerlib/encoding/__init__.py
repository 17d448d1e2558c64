"""Re-exports of message readers and writers, for compatibility with imports from singer_sdk."""

from __future__ import annotations

from tap_core.protocols.singer.custom_message_reader import (
    GenericSingerReader as GenericSingerReader,
)
from tap_core.protocols.singer.custom_message_reader import SimpleSingerReader as SimpleSingerReader
from tap_core.protocols.singer.custom_message_writer import (
    GenericSingerWriter as GenericSingerWriter,
)
from tap_core.protocols.singer.custom_message_writer import SimpleSingerWriter as SimpleSingerWriter
from tap_core.singerlib.messages import SingerMessageType as SingerMessageType
