"""SQL expressions for Airbyte's metadata columns, such as `_airbyte_raw_id` and `_airbyte_meta`.

The list `changes` in `_airbyte_meta` contains the changes reported by the source, followed by those
of this destination. Source: the Airbyte protocol, `AirbyteRecordMessageMetaChange`.

The SQL refers to these columns of a parsed row: `n` (its position in the input), `t` (extraction
time), `m` (metadata from the source) and the columns that `constant_columns` defines.
"""

from __future__ import annotations

import uuid

from target_spark.tables.identifiers import sql_literal

__all__ = [
    "NODE_DIGITS",
    "UNCASTABLE",
    "UNREADABLE",
    "build_meta",
    "change_entries",
    "changes_in_json",
    "constant_columns",
    "get_extracted_at",
    "meta_prefix",
    "raw_id",
]

UNCASTABLE = "DESTINATION_TYPECAST_ERROR"
"""Reason in `_airbyte_meta` for a null that replaces a value of a wrong type, such as a text in an
integer column."""

UNREADABLE = "DESTINATION_SERIALIZATION_ERROR"
"""Reason in `_airbyte_meta` for a null that replaces a value of a wrong structure, such as a text
in a struct column."""

NODE_DIGITS = 12
"""Number of characters in the last group of a UUID."""


def constant_columns(sync_id: int | None) -> tuple[str, ...]:
    """Return the SQL definitions of two helper columns with the same value in all rows of a batch.

    - ``_meta``: the beginning of the JSON in ``_airbyte_meta``, for the SQL of `build_meta`.
    - ``_ids``: the random prefix of ``_airbyte_raw_id``, for the SQL of `raw_id`.

    Args:
        sync_id: Airbyte's id of the sync; None to omit the id from the JSON.
    """
    id_prefix = str(uuid.uuid4())[:-NODE_DIGITS]
    return (
        f"{sql_literal(meta_prefix(sync_id))} AS `_meta`",
        f"{sql_literal(id_prefix)} AS `_ids`",
    )


def raw_id() -> str:
    """Return the SQL expression for ``_airbyte_raw_id``, a unique id of each row.

    The id is a random prefix, which is the same for all rows of a batch, followed by the position
    of the row in the input as 12 digits.
    """
    return f"concat(`_ids`, substring(CAST(`n` + {10**NODE_DIGITS}L AS STRING), 2))"


def get_extracted_at() -> str:
    """Return the SQL expression for ``_airbyte_extracted_at``, the extraction time of a record.

    A time without a time zone is read as UTC. For a record without a valid extraction time, the
    result is the time when the first row of the batch was received.
    """
    return "coalesce(try_cast(substring_index(`t`, 'Z', 1) AS TIMESTAMP), `_received_at`)"


def meta_prefix(sync_id: int | None) -> str:
    """Return the beginning of the JSON in ``_airbyte_meta``, such as ``{"sync_id":7,"changes":``.

    Args:
        sync_id: Airbyte's id of the sync; None to omit the id from the JSON.
    """
    sync = "" if sync_id is None else f'"sync_id":{sync_id},'
    return f'{{{sync}"changes":'


def build_meta(changes: str | None) -> str:
    """Return the SQL expression for the column ``_airbyte_meta``, a JSON object.

    The object has a list ``changes`` of the changes that the Airbyte source and this destination
    made to the row.

    Args:
        changes: The SQL of a JSON list of the changes that this destination made to the row; None
            if this destination changes no values.
    """
    source = _source_changes()
    if changes is None:
        return f"concat(`_meta`, if(`m` IS NULL, '[]', {source}), '}}')"
    merged = (
        f"CASE WHEN {changes} = '[]' THEN {source} WHEN {source} = '[]' THEN {changes}"
        f" ELSE concat(left({source}, length({source}) - 1), ',', substring({changes}, 2)) END"
    )
    return f"concat(`_meta`, if(`m` IS NULL, {changes}, {merged}), '}}')"


def _source_changes() -> str:
    """Return the SQL of a JSON list of the changes that the Airbyte source made to a row.

    The SQL reads the list from the column ``m``, a JSON object with the metadata that the source
    sent with the row. Without changes, the list is ``[]``.
    """
    changes = "get_json_object(`m`, '$.changes')"
    return f"if(coalesce(startswith({changes}, '['), false), {changes}, '[]')"


def change_entries(fields: str, field: str, reason: str) -> str:
    """Return the SQL of an array of entries for the list ``changes`` of ``_airbyte_meta``.

    Each entry says that a field was set to null, and why.

    Args:
        fields: The SQL of an array with one item per field that was set to null.
        field: The SQL of a field's path. In this SQL, ``f`` is one item of ``fields``.
        reason: Airbyte's code for the reason, such as `UNCASTABLE`.
    """
    change = f"named_struct('field', {field}, 'change', 'NULLED', 'reason', {sql_literal(reason)})"
    return f"transform({fields}, `f` -> {change})"


def changes_in_json(changes: list[str]) -> str:
    """Return the SQL that combines arrays of change entries to one JSON list without duplicates.

    Duplicates occur if a nested value is also copied to a separate column, because both columns
    report the same change.

    Args:
        changes: The SQL expressions of the arrays, as `change_entries` returns them.
    """
    return f"to_json(array_distinct(concat({', '.join(changes)})))"
