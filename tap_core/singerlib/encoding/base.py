"""Re-exports of the base classes of message readers and writers, for imports as in singer_sdk."""

from __future__ import annotations

from tap_core.protocols.singer.custom_message_reader import (
    GenericSingerReader as GenericSingerReader,
)
from tap_core.protocols.singer.custom_message_writer import (
    GenericSingerWriter as GenericSingerWriter,
)
from tap_core.singerlib.messages import SingerMessageType as SingerMessageType
