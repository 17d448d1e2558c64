"""The import path of singer_sdk for the Singer messages."""

from __future__ import annotations

from tap_core.protocols.singer.messages import (  # noqa: I001  one list
    ActivateVersionMessage as ActivateVersionMessage,
    Message as Message,
    RecordMessage as RecordMessage,
    SchemaMessage as SchemaMessage,
    SingerMessageType as SingerMessageType,
    StateMessage as StateMessage,
    exclude_null_dict as exclude_null_dict,
    format_message as format_message,
    write_message as write_message,
)
