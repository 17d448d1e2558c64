"""The import path of singer_sdk for what readers and writers of messages have in common."""

from __future__ import annotations

from tap_core.protocols.singer.message_reader import GenericSingerReader as GenericSingerReader
from tap_core.protocols.singer.message_writer import GenericSingerWriter as GenericSingerWriter
from tap_core.singerlib.messages import SingerMessageType as SingerMessageType
