"""The import path of singer_sdk for readers and writers of messages."""

from __future__ import annotations

from tap_core.protocols.singer.messages import SingerMessageType as SingerMessageType
from tap_core.protocols.singer.reading import GenericSingerReader as GenericSingerReader
from tap_core.protocols.singer.reading import SimpleSingerReader as SimpleSingerReader
from tap_core.protocols.singer.writing import GenericSingerWriter as GenericSingerWriter
from tap_core.protocols.singer.writing import SimpleSingerWriter as SimpleSingerWriter
