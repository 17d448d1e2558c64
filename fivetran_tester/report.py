"""Text that the Fivetran tester prints: the form, the tables, and the rows of a connector's Update.

Example values are shortened; values of secret columns are not shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from fivetran_tester.known_tables import KnownTable, Name, format_name
from fivetran_tester.update_reader import UpdateReader
from tap_core.protocols.fivetran.enums import TextField

__all__ = ["form_lines", "format_count", "format_reading"]

_TEXTS: Final = {
    TextField.PlainText: "text",
    TextField.Password: "secret text",
    TextField.Hidden: "hidden text",
}


def format_count(count: int, noun: str) -> str:
    """Return a count with its noun, such as "1 row" or "2,000 rows"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def form_lines(form: Any) -> Iterator[str]:
    """Yield lines of text that describe the fields of a Fivetran configuration form."""
    yield "Configuration form (* required)"
    yield from _align_columns(_format_fields(form.fields, "  "))
    if form.tests:
        yield f"  Tests: {', '.join(test.label or test.name for test in form.tests)}"


def format_reading(reading: UpdateReader) -> Iterator[str]:
    """Yield lines of text about an Update (a sync): its records, tables and row counts."""
    operations = ", ".join(
        f"{count:,} x {kind}" for kind, count in sorted(reading.operations.items())
    )
    yield f"  {operations or 'nothing'}"
    for name, table in reading.tables.items():
        if name in reading.choice.columns:
            rows = reading.model.tables.get(name)
            count = len(rows.rows) if rows else 0
            records = format_count(reading.counts[name], "record")
            yield f"  {format_name(name)}: {format_count(count, 'row')} of {records}"
            yield from _align_columns(_format_columns(name, table, reading))


def _format_columns(
    name: Name, table: KnownTable, reading: UpdateReader
) -> Iterator[Sequence[str]]:
    """Yield the printed cells (name, type, key, example) of each selected column of a table."""
    selected = reading.choice.columns[name]
    for column in table.columns.values():
        if column.name in selected or column.is_key:
            key = "key" if column.is_key else ""
            example = reading.examples.get((name, column.name), "")
            yield "    " + column.name, column.type_name, key, example


def _format_fields(fields: Iterable[Any], indent: str) -> Iterator[Sequence[str]]:
    """Yield the printed cells of each form field: label, type, name, default; then description.

    ``indent`` precedes the label; it grows for fields that are shown only under a condition.
    """
    for field in fields:
        if field.WhichOneof("type") == "conditional_fields":
            condition = field.conditional_fields.condition
            yield (f"{indent}where {condition.condition_field} is {_format_condition(condition)}:",)
            yield from _format_fields(field.conditional_fields.fields, indent + "  ")
            continue
        must = " *" if field.required else ""
        default = f"[{field.default_value}]" if field.default_value else ""
        yield f"{indent}{field.label}{must}", _format_type(field), field.name, default
        if field.description:
            yield (f"{indent}  {field.description}",)


def _format_condition(condition: Any) -> str:
    """Return the value of a form field that makes other fields visible, as text."""
    kind = condition.WhichOneof("visible_when")
    if kind == "bool_value":
        return "on" if condition.bool_value else "off"
    return "empty" if kind == "empty_value" else str(condition.string_value)


def _format_type(field: Any) -> str:
    """Return the input type of a configuration form's field, as text for the user."""
    kind = field.WhichOneof("type")
    if kind == "text_field":
        return _TEXTS[TextField(field.text_field)]
    if kind == "dropdown_field":
        return f"one of {', '.join(field.dropdown_field.dropdown_field)}"
    if kind == "descriptive_dropdown_fields":
        options = field.descriptive_dropdown_fields.descriptive_dropdown_field
        return f"one of {', '.join(option.label or option.value for option in options)}"
    return {"toggle_field": "on or off", "upload_field": "a file"}.get(kind, "no type")


def _align_columns(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield rows of cells as lines of text, padded so that the columns are aligned.

    A row with only one cell is not aligned.
    """
    lines = list(rows)
    several = [row for row in lines if len(row) > 1]
    widths = [max(map(len, column)) for column in zip(*several, strict=True)]
    for row in lines:
        cells = zip(row, widths if len(row) > 1 else [0], strict=False)
        yield "  ".join(f"{cell:<{width}}" for cell, width in cells).rstrip()
