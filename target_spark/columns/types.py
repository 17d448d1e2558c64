"""Column types of the tables that the target writes.

All classes are immutable and independent of Spark. Each has its type in Spark's DDL;
`target_spark.frames` converts the values. A field of a struct is a `Column`, like a column of a
table.

  ColumnType
  ├── Boolean
  ├── Integer(bits)             8, 16, 32 or 64; the target writes 64
  ├── Decimal(precision, scale)
  ├── Double
  ├── Text                      text, and the JSON of values without a declared structure
  ├── Timestamp                 UTC, to the microsecond
  ├── LocalTimestamp            without a time zone: only in existing tables, written in UTC
  ├── Date
  ├── Binary
  ├── Struct(fields)
  ├── Array(element)
  └── UnmanagedType(written)    another type of an existing table, which is never written
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, TypeAlias

from target_spark.tables.identifiers import quote

__all__ = [
    "MAX_DIGITS",
    "Array",
    "Binary",
    "Boolean",
    "Column",
    "ColumnSource",
    "ColumnType",
    "Date",
    "Decimal",
    "Double",
    "Integer",
    "LocalTimestamp",
    "Struct",
    "Text",
    "Timestamp",
    "UnmanagedType",
]

MAX_DIGITS = 38
"""Maximum precision of Spark's decimal."""


@dataclass(frozen=True, slots=True)
class Boolean:
    """Column type of the values true and false."""

    ddl: ClassVar[str] = "boolean"
    word: ClassVar[str] = "boolean"


@dataclass(frozen=True, slots=True)
class Integer:
    """Column type of a signed integer of ``bits`` bits (8, 16, 32 or 64)."""

    bits: int = 64

    _WORDS: ClassVar[dict[int, str]] = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}

    @property
    def ddl(self) -> str:
        """The type in Spark's DDL, such as ``bigint``."""
        return self._WORDS[self.bits]

    @property
    def word(self) -> str:
        """Suffix in the name of a column that is added for this type, as in ``amount__bigint``."""
        return self.ddl


@dataclass(frozen=True, slots=True)
class Decimal:
    """Column type of an exact number of ``precision`` digits, ``scale`` of them after the point."""

    precision: int
    scale: int

    @property
    def ddl(self) -> str:
        """The type in Spark's DDL, such as ``decimal(10,2)``."""
        return f"decimal({self.precision},{self.scale})"

    @property
    def word(self) -> str:
        """Suffix for the name of a column that is added for this type, such as ``decimal_10_2``."""
        return f"decimal_{self.precision}_{self.scale}"


@dataclass(frozen=True, slots=True)
class Double:
    """Column type of a 64-bit floating-point number. Values may be rounded, unlike in `Decimal`."""

    ddl: ClassVar[str] = "double"
    word: ClassVar[str] = "double"


@dataclass(frozen=True, slots=True)
class Text:
    """Column type of text. Values without a declared structure are stored as JSON text."""

    ddl: ClassVar[str] = "string"
    word: ClassVar[str] = "string"


@dataclass(frozen=True, slots=True)
class Timestamp:
    """Column type of a point in time, stored in UTC to the microsecond."""

    ddl: ClassVar[str] = "timestamp"
    word: ClassVar[str] = "timestamp"


@dataclass(frozen=True, slots=True)
class LocalTimestamp:
    """Column type of a date and time without a time zone.

    Only existing tables have such columns; target-spark creates none and writes UTC to them.
    """

    ddl: ClassVar[str] = "timestamp_ntz"
    word: ClassVar[str] = "timestamp_ntz"


@dataclass(frozen=True, slots=True)
class Date:
    """Column type of a date in the proleptic Gregorian calendar."""

    ddl: ClassVar[str] = "date"
    word: ClassVar[str] = "date"


@dataclass(frozen=True, slots=True)
class Binary:
    """Column type of a sequence of bytes."""

    ddl: ClassVar[str] = "binary"
    word: ClassVar[str] = "binary"


@dataclass(frozen=True, slots=True)
class UnmanagedType:
    """Column type of an existing table that target-spark never writes, such as a map.

    Attributes:
        written: The type's DDL text, as read from the table.
    """

    written: str

    @property
    def ddl(self) -> str:
        """The type in Spark's DDL, as read from the table."""
        return self.written

    @property
    def word(self) -> str:
        """Suffix for the name of a column that is added for this type, such as ``map_int_int_``."""
        return "".join(c if c.isalnum() else "_" for c in self.written)


@dataclass(frozen=True, slots=True)
class Struct:
    """Column type of an object with declared properties, as a struct of named fields."""

    fields: tuple[Column, ...]

    word: ClassVar[str] = "struct"

    @property
    def ddl(self) -> str:
        """The type in Spark's DDL with quoted field names, such as ``struct<`a`: bigint>``."""
        return f"struct<{', '.join(f'{quote(f.name)}: {f.type.ddl}' for f in self.fields)}>"


@dataclass(frozen=True, slots=True)
class Array:
    """Column type of a list whose items all have the type ``element``."""

    element: ColumnType

    word: ClassVar[str] = "array"

    @property
    def ddl(self) -> str:
        """The type in Spark's DDL, such as ``array<string>``."""
        return f"array<{self.element.ddl}>"


ColumnType: TypeAlias = (
    Boolean
    | Integer
    | Decimal
    | Double
    | Text
    | Timestamp
    | LocalTimestamp
    | Date
    | Binary
    | UnmanagedType
    | Struct
    | Array
)


class ColumnSource(Enum):
    """Source of a table column's values: a property, metadata, the whole record, or none."""

    PROPERTY = "property"
    """The record's property ``source``."""
    METADATA = "metadata"
    """Metadata of the record's message or of the run; ``source`` is the metadata column's name."""
    WHOLE = "whole"
    """The whole record as JSON, for a stream that declares no properties."""
    NOTHING = "nothing"
    """No source, because the stream has no such property. The column is not written."""
    EMPTIED = "emptied"
    """No longer a source, for example because the property now fills another column. Null is
    written."""


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table or field of a struct, with the source of its values.

    Attributes:
        source: The name of the property that fills the column. For a key that is nested in a
            property, its dotted name, such as ``user.id``.
        name: The name of the column in the table.
        type: The type of the values.
        comment: The comment of the column in the table, or None. It is ignored when columns are
            compared.
        feed: The kind of source: a property, metadata, the whole record or none.
        path: The path of a value nested in a property, such as ``("user", "id")``; else empty.
    """

    source: str
    name: str
    type: ColumnType
    comment: str | None = field(default=None, compare=False)
    feed: ColumnSource = ColumnSource.PROPERTY
    path: tuple[str, ...] = ()

    @property
    def is_fed(self) -> bool:
        """True if a property, metadata or the whole record provides the values of the column."""
        return self.feed not in {ColumnSource.NOTHING, ColumnSource.EMPTIED}
