"""Code generation for a function that flattens records with the properties of a sample record.

The function is fast because it reads the values of each object in order, without a look-up by name.
It returns None for a record with other properties; the caller then looks up each property. Column
names are inserted into the generated code as literals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tap_core.records.value_rules import PLAIN_TYPES, TYPE_NAMES
from tap_core.types import Record

__all__ = ["GetColumn", "QuickFlattener", "compile_quick_flattener", "flatten_nothing"]

QuickFlattener: TypeAlias = Callable[[Record], "Record | None"]
"""Function that returns a flattened copy of a record, or None for unexpected properties."""

GetColumn: TypeAlias = Callable[[tuple[str, ...], str], tuple[str, bool]]
"""Function that returns a property's column name, and True to split an object into columns.

Its arguments are the names of the enclosing objects and the name of the property.
"""

_MAX_COLUMNS = 1_000
"""Maximum number of columns in a generated function, which limits its compilation time."""


def flatten_nothing(_record: Record) -> None:
    """Return None for any record; used until a `QuickFlattener` is compiled for a sample record."""


def compile_quick_flattener(
    sample: Record, get_column: GetColumn, convert: Callable[[Any], Any]
) -> QuickFlattener:
    """Compile a function that flattens records with the same properties as the sample.

    Their order must also be the same, in the record and in each nested object that is split into
    columns. For any other record the function returns None. For a record with an object ``place``
    and a list ``tags``, the generated code is::

        def flatten(r):
            if type(r) is not dict or [*r] != k0: return None
            x0, x1, x2 = r.values()
            if type(x0) is not int and type(x0) not in plain: return None
            if type(x1) is not dict or [*x1] != k1: return None
            x3, = x1.values()
            if type(x3) is not str and type(x3) not in plain: return None
            if type(x2) not in plain: x2 = convert(x2)
            return {'id': x0, 'place__city': x3, 'tags': x2}

    Args:
        sample: Record with the properties of the records to flatten.
        get_column: Function that returns a property's column name, and True if an object in it is
            split.
        convert: Function that converts a list or an object that is not split, for example to JSON
            text.
    """
    writer = _FlattenerWriter(get_column, convert)
    writer.write_object("r", sample, ())
    if not writer.is_complete:
        return flatten_nothing
    columns = ", ".join(f"{column!r}: {variable}" for column, variable in writer.columns)
    source = "\n".join(("def flatten(r):", *writer.lines, f"    return {{{columns}}}", ""))
    exec(source, writer.names)  # noqa: S102 - the source has only literals and names of this module
    flatten: QuickFlattener = writer.names["flatten"]
    return flatten


class _FlattenerWriter:
    """Generator of the source code of a flattening function, with a variable for each value."""

    def __init__(self, get_column: GetColumn, convert: Callable[[Any], Any]) -> None:
        self.lines: list[str] = []
        self.columns: list[tuple[str, str]] = []
        """Column names and the variables of their values, in the order of the result."""
        self.names: dict[str, Any] = {"plain": PLAIN_TYPES, "convert": convert}
        self.is_complete = True
        """False if the sample cannot be flattened by a generated function."""
        self._get_column = get_column
        self._variables = 0

    def write_object(self, variable: str, sample: Record, path: tuple[str, ...]) -> None:
        """Generate the code that flattens the object in ``variable``.

        ``sample`` is the object in the sample record. ``path`` has the property names from the
        record to the object; it is empty for the record itself.
        """
        names = list(sample)
        if len(self.columns) + len(names) > _MAX_COLUMNS or not all(type(n) is str for n in names):
            self.is_complete = False
            return
        keys = f"k{len(self.names)}"
        self.names[keys] = names
        self._write(f"if type({variable}) is not dict or [*{variable}] != {keys}: return None")
        variables = [f"x{self._variables + number}" for number in range(len(names))]
        self._variables += len(names)
        if variables:
            self._write(f"{', '.join(variables)}, = {variable}.values()")
        for name, inner in zip(names, variables, strict=True):
            self._write_value(inner, sample[name], path, name)

    def _write_value(self, variable: str, sample: Any, path: tuple[str, ...], name: str) -> None:
        column, is_split = self._get_column(path, name)
        if is_split and type(sample) is dict:
            self.write_object(variable, sample, (*path, name))
            return
        usual = TYPE_NAMES.get(type(sample))
        condition = f"type({variable}) is not {usual} and " if usual else ""
        condition += f"type({variable}) not in plain"
        action = "return None" if is_split else f"{variable} = convert({variable})"
        self._write(f"if {condition}: {action}")
        self.columns.append((str(column), variable))

    def _write(self, line: str) -> None:
        self.lines.append(f"    {line}")
