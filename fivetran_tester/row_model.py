"""Model of the rows that a destination holds after the records that a connector has sent so far.

A row takes four bytes per column (a checksum of the value), so that large tables fit into memory
and two models can be compared column by column. A row without a key is identified by all its
values. Deleted rows are removed from the model.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fivetran_tester.known_tables import Name, format_name
from tap_core.protocols.fivetran.enums import RecordType

__all__ = ["CheckpointSample", "Model", "TableRows"]

_CRC_BYTES: Final = 4
_NO_CHECKSUM: Final = bytes(_CRC_BYTES)


class TableRows:
    """Rows that a destination's table should have after the records that a connector has sent.

    To save memory, only a digest of each row's key and the checksums of its values are stored.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = tuple(keys)
        self.offsets: dict[str, int] = {}
        self.rows: dict[bytes, bytes] = {}

    def copy(self) -> TableRows:
        """Return a copy of the table's rows, which later records do not change."""
        other = TableRows(self.keys)
        other.offsets, other.rows = self.offsets.copy(), self.rows.copy()
        return other

    def apply(self, kind: int, data: Mapping[str, Any]) -> None:
        """Apply a connector's record to the rows.

        ``kind`` is the record's type: upsert, update, delete or truncate.
        """
        if kind == RecordType.TRUNCATE:
            self.rows.clear()
            return
        encoded = {name: value.SerializeToString() for name, value in data.items()}
        identity = self._compute_identity(encoded)
        if kind == RecordType.DELETE:
            self.rows.pop(identity, None)
        elif kind == RecordType.UPSERT:
            self.rows[identity] = self._replace_checksums(b"", encoded)
        elif identity in self.rows:
            self.rows[identity] = self._replace_checksums(self.rows[identity], encoded)

    def differences(self, other: TableRows) -> Iterator[str]:
        """Yield descriptions of the differences between two results of syncing the same table.

        The descriptions contain row counts and column names, but no values.
        """
        missing = self.rows.keys() - other.rows.keys()
        unexpected = other.rows.keys() - self.rows.keys()
        if missing:
            yield f"{len(missing):,} rows are missing"
        if unexpected:
            yield f"{len(unexpected):,} rows are unexpected"
        names = {*self.offsets, *other.offsets}
        changed = [
            name
            for name in sorted(names)
            if any(
                self._get_checksum(name, row) != other._get_checksum(name, other.rows[identity])
                for identity, row in self.rows.items()
                if identity not in missing
            )
        ]
        if changed:
            yield f"values differ in {', '.join(changed)}"

    def _get_checksum(self, name: str, row: bytes) -> bytes:
        """Return the checksum of a row's value in column ``name``; zero bytes without a value."""
        offset = self.offsets.get(name)
        if offset is None:
            return _NO_CHECKSUM
        return row[offset : offset + _CRC_BYTES] or _NO_CHECKSUM

    def _compute_identity(self, encoded: Mapping[str, bytes]) -> bytes:
        """Return a digest that identifies a record's row: of its key, or else of all values.

        ``encoded`` has the record's values by column, in protobuf's encoding.
        """
        names = self.keys or sorted(encoded)
        parts = [encoded.get(name, b"") for name in names]
        joined = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hashlib.blake2b(joined, digest_size=16).digest()

    def _replace_checksums(self, row: bytes, encoded: Mapping[str, bytes]) -> bytes:
        """Return a row's checksums, with those of the columns in ``encoded`` replaced."""
        for name in encoded:
            if name not in self.offsets:
                self.offsets[name] = len(self.offsets) * _CRC_BYTES
        cells = bytearray(row.ljust(len(self.offsets) * _CRC_BYTES, b"\0"))
        for name, value in encoded.items():
            offset = self.offsets[name]
            cells[offset : offset + _CRC_BYTES] = zlib.crc32(value).to_bytes(_CRC_BYTES, "big")
        return bytes(cells)


class Model:
    """Tables and rows that a destination should contain after a connector's messages."""

    def __init__(self) -> None:
        self.tables: dict[Name, TableRows] = {}

    def copy(self) -> Model:
        """Return a copy of all tables and rows, which later records do not change."""
        other = Model()
        other.tables = {name: rows.copy() for name, rows in self.tables.items()}
        return other

    def only(self, name: Name) -> Model:
        """Return a model with only the table ``name``; its rows are shared with this model."""
        other = Model()
        other.tables = {name: self.tables[name]} if name in self.tables else {}
        return other

    def apply(self, name: Name, keys: Sequence[str], kind: int, data: Mapping[str, Any]) -> None:
        """Apply a connector's record to the table ``name``.

        ``keys`` are the table's key columns; ``kind`` is upsert, update, delete or truncate.
        """
        if name not in self.tables:
            self.tables[name] = TableRows(keys)
        self.tables[name].apply(kind, data)

    def differences(self, other: Model) -> Iterator[str]:
        """Yield descriptions of the differences between two models, with the names of tables."""
        no_rows = TableRows(())
        for name in sorted({*self.tables, *other.tables}, key=format_name):
            ours = self.tables.get(name, no_rows)
            for difference in ours.differences(other.tables.get(name, no_rows)):
                yield f"table {format_name(name)}: {difference}"


class CheckpointSample:
    """Sample of at most ``limit`` checkpoints of an Update (a sync), spread evenly over the Update.

    Each is stored with a copy of the destination's rows at that time, so that a sync which resumes
    from it can be compared.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._step = 1
        self._count = 0
        self._kept: list[tuple[int, str, Model]] = []

    def add(self, state: str, model: Model) -> None:
        """Count a checkpoint of the Update; store its state and rows if it is in the sample."""
        self._count += 1
        if self._count % self._step or not self._limit:
            return
        self._kept.append((self._count, state, model.copy()))
        if len(self._kept) > 2 * self._limit:
            self._step *= 2
            self._kept = [entry for entry in self._kept if entry[0] % self._step == 0]

    def chosen(self) -> list[tuple[int, str, Model]]:
        """Return at most ``limit`` checkpoints, never the last one of the Update.

        Each is a tuple of its number (from 1), its state and the rows at that time.
        """
        earlier = [checkpoint for checkpoint in self._kept if checkpoint[0] < self._count]
        stride = -(-len(earlier) // self._limit) if earlier else 1
        return earlier[::stride]
