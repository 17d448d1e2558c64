"""The Singer messages, as objects, for authors who write them by hand.

Rules of the room: names, fields and dictionary forms are those of singer_sdk's
``singerlib``; a field without a value is left out of the message. Streams do not pass
here: their rows go through the encoder.
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
    """The types of messages that the specification and its extensions have."""

    RECORD = "RECORD"
    SCHEMA = "SCHEMA"
    STATE = "STATE"
    ACTIVATE_VERSION = "ACTIVATE_VERSION"
    BATCH = "BATCH"


def exclude_null_dict(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dictionary of the pairs that have a value."""
    return {key: value for key, value in pairs if value is not None}


@dataclass
class Message:
    """What all messages have: a type."""

    type: SingerMessageType = field(init=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the message as it goes on the wire, before JSON."""
        return exclude_null_dict((each.name, getattr(self, each.name)) for each in fields(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Message:
        """Make a message of what came over the wire, after JSON."""
        return cls(**{key: value for key, value in data.items() if key != "type"})


@dataclass
class RecordMessage(Message):
    """One row of a stream.

    ``time_extracted`` must be aware and is kept in UTC.

    Raises:
        ValueError: ``time_extracted`` has no time zone.
    """

    stream: str
    record: Record
    version: int | None = None
    time_extracted: datetime | None = None

    def __post_init__(self) -> None:
        """Fix the type, and the zone of the time."""
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
        """Make a message of what came over the wire; the time is read from its text."""
        extracted = data.get("time_extracted")
        return cls(
            stream=data["stream"],
            record=data["record"],
            version=data.get("version"),
            time_extracted=parse_datetime(extracted) if extracted else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the message; the record is the same object, and its nulls stay."""
        known = {"type": "RECORD", "stream": self.stream, "record": self.record}
        optional = (("version", self.version), ("time_extracted", self.time_extracted))
        return known | exclude_null_dict(optional)


@dataclass
class SchemaMessage(Message):
    """The schema of a stream, what identifies its rows, and what it is bookmarked by.

    Raises:
        ValueError: ``bookmark_properties`` is neither a text nor a list.
    """

    stream: str
    schema: JsonSchema
    key_properties: Sequence[str] | None = None
    bookmark_properties: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Fix the type; one bookmark property may be given as a bare text."""
        self.type = SingerMessageType.SCHEMA
        if isinstance(self.bookmark_properties, str):
            self.bookmark_properties = [self.bookmark_properties]
        if self.bookmark_properties and not isinstance(self.bookmark_properties, list):
            raise ValueError("'bookmark_properties' must be a string or list of strings.")


@dataclass
class StateMessage(Message):
    """A state that may be kept once all rows before it are safe."""

    value: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Fix the type."""
        self.type = SingerMessageType.STATE


@dataclass
class ActivateVersionMessage(Message):
    """Rows of this stream that are not of ``version`` are no longer valid."""

    stream: str
    version: int

    def __post_init__(self) -> None:
        """Fix the type."""
        self.type = SingerMessageType.ACTIVATE_VERSION


@dataclass
class SDKBatchMessage(Message):
    """Rows that stand in files: what the files hold, and where they are."""

    stream: str
    encoding: BaseBatchFileEncoding
    manifest: list[str] = field(default_factory=list)
    version: int | None = None

    def __post_init__(self) -> None:
        """Fix the type; an encoding may be given as a dictionary."""
        self.type = SingerMessageType.BATCH
        if isinstance(self.encoding, Mapping):
            self.encoding = BaseBatchFileEncoding.from_dict(self.encoding)

    def to_dict(self) -> dict[str, Any]:
        """Return the message; of the encoding what has a value."""
        encoding = asdict(self.encoding, dict_factory=exclude_null_dict)
        return {**super().to_dict(), "encoding": encoding}


def format_message(message: Message) -> str:
    """Return a message as one line of JSON, without its end."""
    return serialize_json(message.to_dict())


def write_message(message: Message) -> None:
    """Write a message to standard output, at once."""
    sys.stdout.write(f"{format_message(message)}\n")
    sys.stdout.flush()
