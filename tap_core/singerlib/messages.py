"""Singer messages as objects, for authors who write them by hand.

Names, fields and dictionary forms are those of singer_sdk's ``singerlib``; a field without a value
is omitted from the message. Streams do not use these classes: their rows go through the encoder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from enum import Enum
from typing import Any

from tap_core.batch.encodings import BaseBatchFileEncoding
from tap_core.parsing.datetimes import parse_datetime
from tap_core.singerlib.json import serialize_json
from tap_core.types import JsonSchema, Record

__all__ = [
    "ActivateVersionMessage",
    "Message",
    "RecordMessage",
    "SDKBatchMessage",
    "SchemaMessage",
    "SingerMessageType",
    "StateMessage",
    "exclude_null_dict",
    "format_message",
    "write_message",
]


class SingerMessageType(str, Enum):
    """Message types of the Singer specification and its extensions."""

    RECORD = "RECORD"
    SCHEMA = "SCHEMA"
    STATE = "STATE"
    ACTIVATE_VERSION = "ACTIVATE_VERSION"
    BATCH = "BATCH"


def exclude_null_dict(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return a dictionary of the pairs whose value is not None."""
    return {key: value for key, value in pairs if value is not None}


@dataclass
class Message:
    """Base class of messages, with the message type."""

    type: SingerMessageType = field(init=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the message as a dictionary for JSON serialization."""
        return exclude_null_dict((each.name, getattr(self, each.name)) for each in fields(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Message:
        """Return the message for a parsed JSON object."""
        return cls(**{key: value for key, value in data.items() if key != "type"})


@dataclass
class RecordMessage(Message):
    """One record of a stream.

    ``time_extracted`` must be aware and is kept in UTC.

    Raises:
        ValueError: ``time_extracted`` has no time zone.
    """

    stream: str
    record: Record
    version: int | None = None
    time_extracted: datetime | None = None

    def __post_init__(self) -> None:
        """Set the type and convert the time to UTC."""
        self.type = SingerMessageType.RECORD
        if self.time_extracted is not None:
            if self.time_extracted.tzinfo is None:
                raise ValueError(
                    "'time_extracted' must be either None or an aware datetime; this one has no"
                    " time zone."
                )
            self.time_extracted = self.time_extracted.astimezone(timezone.utc)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RecordMessage:
        """Return the message for a parsed JSON object; the time is parsed from text."""
        extracted = data.get("time_extracted")
        return cls(
            stream=data["stream"],
            record=data["record"],
            version=data.get("version"),
            time_extracted=parse_datetime(extracted) if extracted else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the message as a dictionary; the record is not copied and keeps its nulls."""
        known = {"type": "RECORD", "stream": self.stream, "record": self.record}
        optional = (("version", self.version), ("time_extracted", self.time_extracted))
        return known | exclude_null_dict(optional)


@dataclass
class SchemaMessage(Message):
    """Schema, key properties and bookmark properties of a stream.

    Raises:
        ValueError: ``bookmark_properties`` is neither a string nor a list.
    """

    stream: str
    schema: JsonSchema
    key_properties: Sequence[str] | None = None
    bookmark_properties: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Set the type; a single bookmark property may be a string."""
        self.type = SingerMessageType.SCHEMA
        if isinstance(self.bookmark_properties, str):
            self.bookmark_properties = [self.bookmark_properties]
        if self.bookmark_properties and not isinstance(self.bookmark_properties, list):
            raise ValueError("'bookmark_properties' must be a string or list of strings.")


@dataclass
class StateMessage(Message):
    """A state that may be stored once all records before it are persisted."""

    value: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Set the type."""
        self.type = SingerMessageType.STATE


@dataclass
class ActivateVersionMessage(Message):
    """Message that invalidates all rows of the stream with another ``version``."""

    stream: str
    version: int

    def __post_init__(self) -> None:
        """Set the type."""
        self.type = SingerMessageType.ACTIVATE_VERSION


@dataclass
class SDKBatchMessage(Message):
    """Message that refers to batch files with records: their encoding and their locations."""

    stream: str
    encoding: BaseBatchFileEncoding
    manifest: list[str] = field(default_factory=list)
    version: int | None = None

    def __post_init__(self) -> None:
        """Set the type; the encoding may be a dictionary."""
        self.type = SingerMessageType.BATCH
        if isinstance(self.encoding, Mapping):
            self.encoding = BaseBatchFileEncoding.from_dict(self.encoding)

    def to_dict(self) -> dict[str, Any]:
        """Return the message as a dictionary, with the encoding's non-null fields."""
        encoding = asdict(self.encoding, dict_factory=exclude_null_dict)
        return {**super().to_dict(), "encoding": encoding}


def format_message(message: Message) -> str:
    """Return a message as one line of JSON, without a line feed."""
    return serialize_json(message.to_dict())


def write_message(message: Message) -> None:
    """Write a message to standard output and flush it."""
    sys.stdout.write(f"{format_message(message)}\n")
    sys.stdout.flush()
