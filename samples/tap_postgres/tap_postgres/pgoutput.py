"""Decoder of the messages of PostgreSQL's output plugin `pgoutput`, protocol version 1.

Source: the manual, "Logical Replication Message Formats". A message is decoded without the messages
before it. Values are the server's text, as bytes. Anything that is not a message of version 1
raises `MessageError`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, TypeAlias

from tap_core.exceptions import FatalSyncError

__all__ = [
    "UNCHANGED",
    "Begin",
    "Column",
    "Delete",
    "Insert",
    "Message",
    "MessageError",
    "Relation",
    "Row",
    "Truncate",
    "Update",
    "Value",
    "decode",
]


class MessageError(FatalSyncError):
    """Raised for bytes that are not a message of pgoutput's protocol version 1."""


class _Unchanged(Enum):
    """Type of the only value `UNCHANGED`."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = _Unchanged.UNCHANGED
"""Value of a column that an update did not change and that is stored out of line (TOAST)."""

Value: TypeAlias = "bytes | _Unchanged | None"
"""Text of a value, None for NULL, or `UNCHANGED`."""
Row: TypeAlias = "list[Value]"
"""Values of a row, in the order of the columns of its `Relation`."""


@dataclass(frozen=True, slots=True)
class Begin:
    """Start of a transaction; transactions come in the order of their commits."""

    commit_lsn: int
    """Position of the commit in the log."""
    committed_at: int
    """Time of the commit in microseconds since 2000-01-01, UTC."""


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a `Relation`."""

    name: str
    is_key: bool
    """True if the column is part of the replica identity."""
    type_oid: int


@dataclass(frozen=True, slots=True)
class Relation:
    """Columns of a table, which apply to its rows in the following messages."""

    oid: int
    schema: str
    table: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Insert:
    """Inserted row."""

    oid: int
    new: Row


@dataclass(frozen=True, slots=True)
class Update:
    """Updated row; ``old`` is None if neither the key changed nor the full old row is logged."""

    oid: int
    old: Row | None
    new: Row


@dataclass(frozen=True, slots=True)
class Delete:
    """Deleted row; columns that are not in the replica identity are None in ``old``."""

    oid: int
    old: Row


@dataclass(frozen=True, slots=True)
class Truncate:
    """Tables that were truncated."""

    oids: tuple[int, ...]


Message: TypeAlias = "Begin | Relation | Insert | Update | Delete | Truncate"

_BEGIN = struct.Struct(">QqI").unpack_from
_INT32 = struct.Struct(">I").unpack_from
_INT16 = struct.Struct(">H").unpack_from


def decode(data: bytes) -> Message | None:
    """Return the message in ``data``; None for one without rows, such as Commit or Type.

    Raises:
        MessageError: The bytes are not a complete message of protocol version 1.
    """
    kind = data[:1]
    if kind in _IGNORED:
        return None
    read = _READERS.get(kind)
    if read is None:
        raise MessageError(
            f"The log has a message of the unknown type {kind!r}: the tap reads protocol version 1"
            " of pgoutput."
        )
    try:
        message, end = read(data)
        if end == len(data):
            return message
    except (struct.error, ValueError, IndexError):  # a UnicodeDecodeError is a ValueError
        pass
    raise MessageError(
        f"The log has an invalid message of type {kind.decode()} and {len(data)} bytes: it does"
        " not follow protocol version 1 of pgoutput."
    )


def _read_begin(data: bytes) -> tuple[Message, int]:
    lsn, time, _ = _BEGIN(data, 1)
    return Begin(lsn, time), 21


def _read_relation(data: bytes) -> tuple[Message, int]:
    [oid] = _INT32(data, 1)
    schema, position = _read_name(data, 5)
    table, position = _read_name(data, position)
    [count] = _INT16(data, position + 1)  # after the replica identity
    position += 3
    columns = []
    for _ in range(count):
        is_key = bool(data[position] & 1)
        name, position = _read_name(data, position + 1)
        columns.append(Column(name, is_key, _INT32(data, position)[0]))
        position += 8  # after the type's modifier
    return Relation(oid, schema or "pg_catalog", table, tuple(columns)), position


def _read_insert(data: bytes) -> tuple[Message, int]:
    _require(data, 5, b"N")
    new, position = _read_row(data, 6)
    return Insert(_INT32(data, 1)[0], new), position


def _read_update(data: bytes) -> tuple[Message, int]:
    old, position = None, 5
    if data[5:6] != b"N":
        _require(data, 5, b"KO")
        old, position = _read_row(data, 6)
        _require(data, position, b"N")
    new, position = _read_row(data, position + 1)
    return Update(_INT32(data, 1)[0], old, new), position


def _read_delete(data: bytes) -> tuple[Message, int]:
    _require(data, 5, b"KO")
    old, position = _read_row(data, 6)
    return Delete(_INT32(data, 1)[0], old), position


def _read_truncate(data: bytes) -> tuple[Message, int]:
    [count] = _INT32(data, 1)
    end = 6 + 4 * count
    if end != len(data):
        raise ValueError(count)
    return Truncate(struct.unpack_from(f">{count}I", data, 6)), end


def _read_row(data: bytes, position: int) -> tuple[Row, int]:
    """Return the row that starts at an offset, and the offset of its end."""
    [count] = _INT16(data, position)
    position += 2
    row: Row = []
    for _ in range(count):
        kind = data[position]
        if kind == _TEXT:
            start = position + 5
            position = start + _INT32(data, position + 1)[0]
            row.append(data[start:position])
            continue
        if kind == _NULL:
            row.append(None)
        elif kind == _TOAST:
            row.append(UNCHANGED)
        else:
            raise ValueError(kind)
        position += 1
    return row, position


def _read_name(data: bytes, position: int) -> tuple[str, int]:
    end = data.index(b"\0", position)
    return data[position:end].decode(), end + 1


def _require(data: bytes, position: int, kinds: bytes) -> None:
    if data[position] not in kinds:
        raise ValueError(kinds)


_TEXT, _NULL, _TOAST = b"tnu"
_IGNORED = (b"C", b"O", b"Y", b"M")
"""Types of messages without rows: Commit, Origin, Type and logical decoding messages."""
_READERS: Mapping[bytes, Callable[[bytes], tuple[Message, int]]] = MappingProxyType(
    {
        b"B": _read_begin,
        b"R": _read_relation,
        b"I": _read_insert,
        b"U": _read_update,
        b"D": _read_delete,
        b"T": _read_truncate,
    }
)
