"""The import path of singer_sdk for what readers and writers of messages have in common."""

from __future__ import annotations

from tap_core.protocols.singer.messages import SingerMessageType as SingerMessageType
from tap_core.protocols.singer.reading import GenericSingerReader as GenericSingerReader
from tap_core.protocols.singer.writing import GenericSingerWriter as GenericSingerWriter
