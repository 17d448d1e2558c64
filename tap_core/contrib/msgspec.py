"""Compatibility module for plugins that import ``singer_sdk.contrib.msgspec``.

It only re-exports names of `tap_core.protocols.singer`.
"""

# ruff: noqa: I001  one list is easier to read than one statement per name

from __future__ import annotations

from tap_core.protocols.singer.custom_message_reader import (
    MsgSpecReader as MsgSpecReader,
    dec_hook as dec_hook,
    decoder as decoder,
)
from tap_core.protocols.singer.custom_message_writer import MsgSpecWriter as MsgSpecWriter
from tap_core.protocols.singer.msgspec_encoding import (
    enc_hook as enc_hook,
    encoder as encoder,
    serialize_jsonl as serialize_jsonl,
)
