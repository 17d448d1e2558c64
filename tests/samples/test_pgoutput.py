"""Messages of pgoutput: exact decoding, and an error for any other bytes."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tests.samples.postgres_tap  # noqa: F401 - makes the sample importable
from tap_postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Column,
    Delete,
    Insert,
    MessageError,
    Relation,
    Truncate,
    Update,
    Value,
    decode,
)

VALUES = st.one_of(st.none(), st.just(UNCHANGED), st.binary(max_size=40))
ROWS = st.lists(VALUES, max_size=8)
OIDS = st.integers(0, 2**32 - 1)


def encode_row(row: list[Value]) -> bytes:
    """Return a row as the server writes it."""
    encoded = struct.pack(">H", len(row))
    for value in row:
        if value is None:
            encoded += b"n"
        elif isinstance(value, bytes):
            encoded += b"t" + struct.pack(">I", len(value)) + value
        else:
            encoded += b"u"
    return encoded


@given(OIDS, ROWS, ROWS)
def test_rows_are_decoded_exactly(oid: int, old: list[Value], new: list[Value]) -> None:
    number = struct.pack(">I", oid)
    assert decode(b"I" + number + b"N" + encode_row(new)) == Insert(oid, new)
    assert decode(b"U" + number + b"N" + encode_row(new)) == Update(oid, None, new)
    for kind in (b"K", b"O"):
        before = number + kind + encode_row(old)
        assert decode(b"D" + before) == Delete(oid, old)
        assert decode(b"U" + before + b"N" + encode_row(new)) == Update(oid, old, new)


def test_other_messages_are_decoded() -> None:
    assert decode(b"B" + struct.pack(">QqI", 7, 8, 9)) == Begin(7, 8)
    columns = b"\1id\0" + struct.pack(">Ii", 23, -1) + b"\0name\0" + struct.pack(">Ii", 25, -1)
    relation = b"R" + struct.pack(">I", 5) + b"public\0t\0d" + struct.pack(">H", 2) + columns
    assert decode(relation) == Relation(
        5,
        "public",
        "t",
        (Column("id", is_key=True, type_oid=23), Column("name", is_key=False, type_oid=25)),
    )
    assert decode(b"T" + struct.pack(">IBII", 2, 0, 5, 6)) == Truncate((5, 6))
    assert decode(b"Y whatever") is decode(b"O") is decode(b"C") is None


@given(st.binary(max_size=200), st.sampled_from([b"", *(b"BRIUDTX"[i : i + 1] for i in range(7))]))
def test_arbitrary_bytes_are_a_message_or_an_error(data: bytes, kind: bytes) -> None:
    with contextlib.suppress(MessageError):
        decode(kind + data)


@given(OIDS, ROWS, st.data())
def test_truncated_and_longer_messages_are_errors(
    oid: int, row: list[Value], data: st.DataObject
) -> None:
    message = b"I" + struct.pack(">I", oid) + b"N" + encode_row(row)
    with pytest.raises(MessageError):
        decode(message[: data.draw(st.integers(1, len(message) - 1))])
    with pytest.raises(MessageError):
        decode(message + b"x")
