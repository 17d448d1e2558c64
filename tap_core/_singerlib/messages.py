"""Compatibility import path of singer_sdk; nothing is defined here.

The names are defined in `tap_core.singerlib.messages`.
"""

# ruff: noqa: I001  one list is easier to read than one statement per name

from __future__ import annotations

from tap_core.singerlib.messages import (
    ActivateVersionMessage as ActivateVersionMessage,
    exclude_null_dict as exclude_null_dict,
    format_message as format_message,
    Message as Message,
    RecordMessage as RecordMessage,
    SchemaMessage as SchemaMessage,
    SingerMessageType as SingerMessageType,
    StateMessage as StateMessage,
    write_message as write_message,
    SDKBatchMessage as SDKBatchMessage,
)
