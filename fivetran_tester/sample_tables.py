"""Sample tables with a column of every Fivetran type, and rows with each type's extreme values.

Cells have the form of Fivetran's batch files. The string `MARKER` occurs only in these rows, so
that its appearance in a log or an error proves that a row's value was shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from fivetran_tester.batch_files import NULL, Cell
from fivetran_tester.known_tables import KnownColumn
from tap_core.protocols.fivetran.enums import DataType

__all__ = ["DELETED", "HISTORY", "KEYLESS", "MARKER", "SYNCED", "TYPES", "Sample"]

MARKER: Final = "seen-by-nobody-4711"
"""Value that must not appear in any log or error."""

SYNCED: Final = "_fivetran_synced"
DELETED: Final = "_fivetran_deleted"
_SYNCED_AT: Final = "2024-01-08T18:52:07.754685370Z"
_END_OF_TIME: Final = "9999-12-31T23:59:59.999Z"

_CELLS: Final[Mapping[DataType, tuple[str, str]]] = {
    DataType.BOOLEAN: ("true", "false"),
    DataType.SHORT: ("-32768", "32767"),
    DataType.INT: ("-2147483648", "2147483647"),
    DataType.LONG: ("-9223372036854775808", "9223372036854775807"),
    DataType.DECIMAL: ("-9999999999999999999999999999.9999999999", "0.0000000001"),
    DataType.FLOAT: ("3.4028235E+38", "-1.17549435E-38"),
    DataType.DOUBLE: ("1.7976931348623157E308", "-2.2250738585072014E-308"),
    DataType.NAIVE_DATE: ("0001-01-01", "9999-12-31"),
    DataType.NAIVE_DATETIME: ("1582-10-10T10:15:30", "2024-03-31T02:30"),
    DataType.UTC_DATETIME: (_SYNCED_AT, _END_OF_TIME),
    DataType.BINARY: ("AAECAwT/", ""),
    DataType.XML: ("<tag>This is xml</tag>", "<a/>"),
    DataType.STRING: (f'{MARKER}, "quoted"\nand a second line \\ \u2028', ""),
    DataType.JSON: ('{"a": 123, "b": [1.5, null]}', '"text"'),
    DataType.NAIVE_TIME: ("10:15:30.123", "10:15"),
}


@dataclass(frozen=True)
class Sample:
    """Table that a test creates in a destination: its columns, and rows as cells by column name."""

    columns: tuple[KnownColumn, ...]
    rows: tuple[Mapping[str, Cell], ...]

    @property
    def names(self) -> list[str]:
        """Names of the table's columns, in order."""
        return [column.name for column in self.columns]

    @property
    def keys(self) -> list[str]:
        """Names of the primary key columns."""
        return [column.name for column in self.columns if column.is_key]

    def with_columns(self, **columns: KnownColumn | None) -> Sample:
        """Return a copy of the table in which ``columns`` replace columns by name, or are added.

        None removes a column.
        """
        current = {column.name: column for column in self.columns}
        merged = {**current, **columns}
        return replace(self, columns=tuple(column for column in merged.values() if column))


def _column(name: str, of_type: DataType, *, key: bool = False) -> KnownColumn:
    return KnownColumn(name, of_type, key, (38, 10) if of_type == DataType.DECIMAL else None)


_VALUES: Final = tuple(_column(f"a_{kind.name.lower()}", kind) for kind in _CELLS)
_SYSTEM: Final = (_column(DELETED, DataType.BOOLEAN), _column(SYNCED, DataType.UTC_DATETIME))


def _row(number: int, **kwargs: Cell) -> dict[str, Cell]:
    cells = {f"a_{kind.name.lower()}": pair[number % 2] for kind, pair in _CELLS.items()}
    return {**cells, DELETED: "false", SYNCED: _SYNCED_AT, **kwargs}


TYPES: Final = Sample(
    (
        _column("id", DataType.LONG, key=True),
        _column("region", DataType.STRING, key=True),
        *_VALUES,
        *_SYSTEM,
    ),
    (
        _row(0, id="1", region="north"),
        _row(1, id="2", region="north"),
        {**dict.fromkeys(_row(0), NULL), "id": "3", "region": "south", SYNCED: _SYNCED_AT},
    ),
)
"""Table with a composite key and a column of every type."""

KEYLESS: Final = Sample(
    (_column("_fivetran_id", DataType.STRING, key=True), *_VALUES, *_SYSTEM),
    (_row(0, _fivetran_id="b7l0"), _row(1, _fivetran_id="c9x1")),
)
"""Table without a source key; Fivetran adds ``_fivetran_id``."""

HISTORY: Final = Sample(
    (
        _column("id", DataType.LONG, key=True),
        _column("_fivetran_start", DataType.UTC_DATETIME, key=True),
        _column("a_string", DataType.STRING),
        _column("_fivetran_end", DataType.UTC_DATETIME),
        _column("_fivetran_active", DataType.BOOLEAN),
        _column(SYNCED, DataType.UTC_DATETIME),
    ),
    (
        {
            "id": "1",
            "_fivetran_start": "2024-01-08T18:00:00.000Z",
            "a_string": MARKER,
            "_fivetran_end": _END_OF_TIME,
            "_fivetran_active": "true",
            SYNCED: _SYNCED_AT,
        },
    ),
)
"""History table, whose rows have a start and an end time."""
