"""What is to be known of a row beside its values, in Airbyte's columns.

Rules of the room: pure text, and as little work for each row as can be, because every row
has these columns. What the source has said of changes to a row comes first, then what is
changed here; a row of which nothing is to be said costs no more than a constant. The words
are those of Airbyte's protocol (`AirbyteRecordMessageMetaChange`).
"""

from __future__ import annotations

import uuid

from target_spark.tables.identifiers import sql_literal

__all__ = [
    "UNCASTABLE",
    "UNREADABLE",
    "build_meta",
    "change_entry",
    "changes_in_json",
    "constant_columns",
    "get_extracted_at",
    "meta_prefix",
    "raw_id",
]

UNCASTABLE = "DESTINATION_TYPECAST_ERROR"
"""Why a value became null that is none of its column's type."""

UNREADABLE = "DESTINATION_SERIALIZATION_ERROR"
"""Why a value became null that is not of its column's structure."""


_NODE = 12
"""Signs of a UUID's last group."""


def constant_columns(sync_id: int | None) -> tuple[str, ...]:
    """Return what the expressions of this room need beside a line, new for each batch."""
    fresh = str(uuid.uuid4())[:-_NODE]
    return (f"{sql_literal(meta_prefix(sync_id))} AS `_meta`", f"{sql_literal(fresh)} AS `_ids`")


def raw_id() -> str:
    """Return the SQL of a row's UUID: random for its batch, and then the row's ordinal."""
    return f"concat(`_ids`, substring(CAST(`n` + {10**_NODE}L AS STRING), 2))"


def get_extracted_at() -> str:
    """Return the SQL of when a row was read from its source, in which UTC is the rule."""
    return "coalesce(try_cast(substring_index(`t`, 'Z', 1) AS TIMESTAMP), `_received_at`)"


def meta_prefix(sync_id: int | None) -> str:
    """Return how the meta of every row of a sync begins."""
    known = "" if sync_id is None else f'"sync_id":{sync_id},'
    return f'{{{known}"changes":'


def build_meta(changes: str | None) -> str:
    """Return the SQL of a row's meta; ``changes`` is that of a JSON list of what was changed.

    Beside that it needs `` `_meta` ``, how it begins, and `` `m` ``, what the source said.
    """
    if changes is None:
        return f"concat(`_meta`, if(`m` IS NULL, '[]', {_came()}), '}}')"
    together = (
        f"CASE WHEN {changes} = '[]' THEN {_came()} WHEN {_came()} = '[]' THEN {changes}"
        f" ELSE concat(left({_came()}, length({_came()}) - 1), ',', substring({changes}, 2)) END"
    )
    return f"concat(`_meta`, if(`m` IS NULL, {changes}, {together}), '}}')"


def _came() -> str:
    """Return the SQL of the changes that the source has told, as a JSON list."""
    found = "get_json_object(`m`, '$.changes')"
    return f"if(coalesce(startswith({found}, '['), false), {found}, '[]')"


def change_entry(fields: str, field: str, reason: str) -> str:
    """Return the SQL of the changes that made fields null.

    ``fields`` is an array, ``field`` the path that an item of it, called `` `f` ``, stands for.
    """
    change = f"named_struct('field', {field}, 'change', 'NULLED', 'reason', {sql_literal(reason)})"
    return f"transform({fields}, `f` -> {change})"


def changes_in_json(changes: list[str]) -> str:
    """Return the SQL of several arrays of changes as one JSON list, each of them once.

    A value inside a property that has a column of its own is null in two places.
    """
    return f"to_json(array_distinct(concat({', '.join(changes)})))"
