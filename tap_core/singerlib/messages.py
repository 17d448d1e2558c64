"""The import path of singer_sdk for the Singer messages."""

# ruff: noqa: I001  one list reads better than one statement per name

from __future__ import annotations

from tap_core.protocols.singer.messages import (
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
