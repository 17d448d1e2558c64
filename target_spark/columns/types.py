"""The types that a column can have, as values.

Rules of the room: pure and frozen, without Spark. A type says how it is written in DDL
and nothing of how values get into it; that is `target_spark.frames`. A field of a
struct is the same thing as a column of a table, so both are `Column`s.

    ColumnType
    ├── Boolean
    ├── Integer(bits)             8, 16, 32 or 64; ours have 64, older tables may have less
    ├── Decimal(precision, scale)
    ├── Double
    ├── Text                      text, and the JSON of whatever has no declared structure
    ├── Timestamp                 an instant, to the microsecond
    ├── LocalTimestamp            a clock's time without a zone: a table's type, fed with UTC
    ├── Date
    ├── Binary
    ├── Struct(fields)
    ├── Array(element)
    └── Foreign(written)          a table's type that takes none of our values
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
"""The digits of Spark's widest decimal."""


@dataclass(frozen=True, slots=True)
class Boolean:
    """True or false."""

    ddl: ClassVar[str] = "boolean"
    word: ClassVar[str] = "boolean"


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number of ``bits`` bits."""

    bits: int = 64

    _WORDS: ClassVar[dict[int, str]] = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}

    @property
    def ddl(self) -> str:
        """The type in Spark's DDL."""
        return self._WORDS[self.bits]

    @property
    def word(self) -> str:
        """The type in a column's name."""
        return self.ddl


@dataclass(frozen=True, slots=True)
class Decimal:
    """An exact number of ``precision`` digits, ``scale`` of them after the point."""

    precision: int
    scale: int

    @property
    def ddl(self) -> str:
        """The type in Spark's DDL."""
        return f"decimal({self.precision},{self.scale})"

    @property
    def word(self) -> str:
        """The type in a column's name."""
        return f"decimal_{self.precision}_{self.scale}"


@dataclass(frozen=True, slots=True)
class Double:
    """A binary floating point number: the one type that rounds, as JSON's numbers do."""

    ddl: ClassVar[str] = "double"
    word: ClassVar[str] = "double"


@dataclass(frozen=True, slots=True)
class Text:
    """Text, or the JSON text of a value without a declared structure."""

    ddl: ClassVar[str] = "string"
    word: ClassVar[str] = "string"


@dataclass(frozen=True, slots=True)
class Timestamp:
    """An instant."""

    ddl: ClassVar[str] = "timestamp"
    word: ClassVar[str] = "timestamp"


@dataclass(frozen=True, slots=True)
class LocalTimestamp:
    """What a clock shows, without a zone: never ours, but a table may have it."""

    ddl: ClassVar[str] = "timestamp_ntz"
    word: ClassVar[str] = "timestamp_ntz"


@dataclass(frozen=True, slots=True)
class Date:
    """A day of the proleptic Gregorian calendar."""

    ddl: ClassVar[str] = "date"
    word: ClassVar[str] = "date"


@dataclass(frozen=True, slots=True)
class Binary:
    """Bytes."""

    ddl: ClassVar[str] = "binary"
    word: ClassVar[str] = "binary"


@dataclass(frozen=True, slots=True)
class UnmanagedType:
    """A type that a table has and we do not write; columns of it are left alone."""

    written: str

    @property
    def ddl(self) -> str:
        """The type in Spark's DDL."""
        return self.written

    @property
    def word(self) -> str:
        """The type in a column's name."""
        return "".join(c if c.isalnum() else "_" for c in self.written)


@dataclass(frozen=True, slots=True)
class Struct:
    """An object with declared properties."""

    fields: tuple[Column, ...]

    word: ClassVar[str] = "struct"

    @property
    def ddl(self) -> str:
        """The type in Spark's DDL."""
        return f"struct<{', '.join(f'{quote(f.name)}: {f.type.ddl}' for f in self.fields)}>"


@dataclass(frozen=True, slots=True)
class Array:
    """A list whose items are of one type."""

    element: ColumnType

    word: ClassVar[str] = "array"

    @property
    def ddl(self) -> str:
        """The type in Spark's DDL."""
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
    """Where the values of a column come from."""

    PROPERTY = "property"
    """The record's property ``source``."""
    METADATA = "metadata"
    """The message around the record, and the run; ``source`` is one of our names."""
    WHOLE = "whole"
    """The whole record as JSON, of a stream that declares no properties."""
    NOTHING = "nothing"
    """Nowhere: the table has the column, the stream does not. It is not written at all."""
    EMPTIED = "emptied"
    """Nowhere any more: what fed it feeds another column. It gets null."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table or a field of a struct, and what it is fed with.

    ``source`` is the name in the record, ``name`` the name in the table. With a ``path``
    the value stands inside a property: by this path, and ``source`` is what it is called.
    """

    source: str
    name: str
    type: ColumnType
    comment: str | None = field(default=None, compare=False)
    feed: ColumnSource = ColumnSource.PROPERTY
    path: tuple[str, ...] = ()

    @property
    def is_fed(self) -> bool:
        """Whether values come from somewhere."""
        return self.feed not in {ColumnSource.NOTHING, ColumnSource.EMPTIED}
