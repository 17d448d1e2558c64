"""Singer messages as objects, for taps whose code creates messages.

Names and fields are those of singer_sdk's ``singerlib``. A field with the value None is left out of
the message. The records of streams are encoded without these classes.
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
from tap_core.types import JsonSchema, Record, TapState

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
    "write_record",
    "write_schema",
    "write_state",
    "write_version",
]


class SingerMessageType(str, Enum):
    """Types of Singer messages, including extensions of the Singer specification such as BATCH."""

    RECORD = "RECORD"
    SCHEMA = "SCHEMA"
    STATE = "STATE"
    ACTIVATE_VERSION = "ACTIVATE_VERSION"
    BATCH = "BATCH"


def exclude_null_dict(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return a dict from (key, value) pairs, without the pairs whose value is None."""
    return {key: value for key, value in pairs if value is not None}


@dataclass
class Message:
    """Base class of Singer messages. Each subclass represents one message type."""

    type: SingerMessageType = field(init=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the message as a dict for JSON serialization. Omit fields with None."""
        return exclude_null_dict(
            (attribute.name, getattr(self, attribute.name)) for attribute in fields(self)
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Message:
        """Create a message of this class from a parsed JSON object.

        The ``type`` in the object is ignored.
        """
        return cls(**{key: value for key, value in data.items() if key != "type"})


@dataclass
class RecordMessage(Message):
    """RECORD message: one record of a stream.

    Attributes:
        stream: Name of the stream.
        record: The record.
        version: Version of the table, as in an ACTIVATE_VERSION message.
        time_extracted: Time at which the record was read, as an aware datetime. It is converted to
            UTC.

    Raises:
        ValueError: ``time_extracted`` has no time zone.
    """

    stream: str
    record: Record
    version: int | None = None
    time_extracted: datetime | None = None

    def __post_init__(self) -> None:
        """Set the message type, and convert ``time_extracted`` to UTC."""
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
        """Create the message from a parsed JSON object. ``time_extracted`` is parsed from text."""
        extracted = data.get("time_extracted")
        return cls(
            stream=data["stream"],
            record=data["record"],
            version=data.get("version"),
            time_extracted=parse_datetime(extracted) if extracted else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the message as a dict. The record is not copied, and keeps its null values."""
        required = {"type": "RECORD", "stream": self.stream, "record": self.record}
        optional = (("version", self.version), ("time_extracted", self.time_extracted))
        return required | exclude_null_dict(optional)


@dataclass
class SchemaMessage(Message):
    """SCHEMA message: the JSON Schema and the keys of a stream.

    Attributes:
        stream: Name of the stream.
        schema: JSON Schema of the records.
        key_properties: Names of the properties in the primary key.
        bookmark_properties: Names of the replication keys. A single name may be a string.

    Raises:
        ValueError: ``bookmark_properties`` is neither a string nor a list.
    """

    stream: str
    schema: JsonSchema
    key_properties: Sequence[str] | None = None
    bookmark_properties: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Set the message type, and convert a single bookmark property to a list."""
        self.type = SingerMessageType.SCHEMA
        if isinstance(self.bookmark_properties, str):
            self.bookmark_properties = [self.bookmark_properties]
        if self.bookmark_properties and not isinstance(self.bookmark_properties, list):
            raise ValueError("'bookmark_properties' must be a string or list of strings.")


@dataclass
class StateMessage(Message):
    """STATE message: bookmarks that are valid once all earlier records have been loaded."""

    value: Mapping[str, Any]

    def __post_init__(self) -> None:
        self.type = SingerMessageType.STATE


@dataclass
class ActivateVersionMessage(Message):
    """ACTIVATE_VERSION message: all rows of the stream that have another version are obsolete."""

    stream: str
    version: int

    def __post_init__(self) -> None:
        self.type = SingerMessageType.ACTIVATE_VERSION


@dataclass
class SDKBatchMessage(Message):
    """BATCH message: the URLs of files that contain records.

    Attributes:
        stream: Name of the stream.
        encoding: Format and compression of the files, as an object or a dict.
        manifest: URLs of the files.
        version: Version of the table, as in an ACTIVATE_VERSION message.
    """

    stream: str
    encoding: BaseBatchFileEncoding
    manifest: list[str] = field(default_factory=list)
    version: int | None = None

    def __post_init__(self) -> None:
        """Set the message type. Convert ``encoding`` to an object if it is a dict."""
        self.type = SingerMessageType.BATCH
        if isinstance(self.encoding, Mapping):
            self.encoding = BaseBatchFileEncoding.from_dict(self.encoding)

    def to_dict(self) -> dict[str, Any]:
        """Return the message as a dict. Omit fields with None, also in ``encoding``."""
        encoding = asdict(self.encoding, dict_factory=exclude_null_dict)
        return {**super().to_dict(), "encoding": encoding}


def format_message(message: Message) -> str:
    """Return a message as one line of JSON, without a line feed."""
    return serialize_json(message.to_dict())


def write_message(message: Message) -> None:
    """Write a message as one line of JSON to standard output, and flush standard output."""
    sys.stdout.write(f"{format_message(message)}\n")
    sys.stdout.flush()


def write_record(
    stream_name: str,
    record: Record,
    *,
    version: int | None = None,
    time_extracted: datetime | None = None,
) -> None:
    """Write a RECORD message, as `write_message` does."""
    write_message(RecordMessage(stream_name, record, version, time_extracted))


def write_schema(
    stream_name: str,
    schema: JsonSchema,
    *,
    key_properties: Sequence[str] | None = None,
    bookmark_properties: Sequence[str] | None = None,
) -> None:
    """Write a SCHEMA message, as `write_message` does."""
    write_message(SchemaMessage(stream_name, schema, key_properties, bookmark_properties))


def write_state(value: TapState) -> None:
    """Write a STATE message, as `write_message` does."""
    write_message(StateMessage(value))


def write_version(stream_name: str, version: int) -> None:
    """Write an ACTIVATE_VERSION message, as `write_message` does."""
    write_message(ActivateVersionMessage(stream_name, version))
