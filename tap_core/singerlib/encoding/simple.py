"""Re-exports of Singer messages and their readers and writers, for imports as in singer_sdk."""

# ruff: noqa: I001  one list reads better than one statement per name

from __future__ import annotations

from tap_core.singerlib.messages import (
    ActivateVersionMessage as ActivateVersionMessage,
    Message as Message,
    RecordMessage as RecordMessage,
    SchemaMessage as SchemaMessage,
    SingerMessageType as SingerMessageType,
    StateMessage as StateMessage,
    exclude_null_dict as exclude_null_dict,
)
from tap_core.protocols.singer.custom_message_reader import (
    GenericSingerReader as GenericSingerReader,
    SimpleSingerReader as SimpleSingerReader,
)
from tap_core.protocols.singer.custom_message_writer import (
    GenericSingerWriter as GenericSingerWriter,
    SimpleSingerWriter as SimpleSingerWriter,
)
