"""Metadata columns that a target adds to each record, such as ``_sdc_extracted_at``.

Names, types and meaning are those of singer_sdk ("Record metadata" in the documentation of the
Meltano SDK), because dashboards and transformations use them. All functions modify their arguments
in place.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Final

from tap_core.exceptions import InvalidJSONSchema
from tap_core.types import JsonSchema, Record

__all__ = [
    "METADATA_COLUMNS",
    "add_metadata",
    "add_metadata_columns",
    "remove_metadata",
    "remove_metadata_columns",
]

_INSTANTS: Final = (
    "_sdc_extracted_at",
    "_sdc_received_at",
    "_sdc_batched_at",
    "_sdc_deleted_at",
)
_NUMBERS: Final = ("_sdc_sequence", "_sdc_table_version", "_sdc_sync_started_at")

METADATA_COLUMNS: Final = (*_INSTANTS, *_NUMBERS)
"""All metadata columns, in the order in which they are added."""


def add_metadata_columns(schema: JsonSchema) -> None:
    """Add the ``_sdc_`` metadata columns to a schema, in place.

    Raises:
        InvalidJSONSchema: ``properties`` is not an object.
    """
    properties = _require_properties(schema)
    for name in _INSTANTS:
        properties[name] = {"type": ["null", "string"], "format": "date-time"}
    for name in _NUMBERS:
        properties[name] = {"type": ["null", "integer"]}


def remove_metadata_columns(schema: JsonSchema) -> None:
    """Remove the ``_sdc_`` metadata columns, which a tap may have added, from a schema in place.

    Raises:
        InvalidJSONSchema: ``properties`` is not an object.
    """
    remove_metadata(_require_properties(schema))


def _require_properties(schema: JsonSchema) -> dict[str, Any]:
    """Return the ``properties`` of a stream's schema: a dict from name to schema.

    Raises:
        InvalidJSONSchema: ``properties`` is not an object.
    """
    properties = schema["properties"]
    if not isinstance(properties, dict):
        kind = type(properties).__name__
        raise InvalidJSONSchema(f"Schema Validation Error: properties is not an object but {kind}")
    return properties


def add_metadata(
    record: Record,
    message: Mapping[str, Any],
    batch_start: datetime | None,
    sync_started_at: int,
) -> None:
    """Set the ``_sdc_`` metadata columns of a record, in place.

    Args:
        record: Record to change.
        message: RECORD message of the record.
        batch_start: Start time of the record's batch; None for the current time.
        sync_started_at: Start time of the sync, in milliseconds since 1970.
    """
    now = datetime.now(timezone.utc)
    record["_sdc_extracted_at"] = message.get("time_extracted")
    record["_sdc_received_at"] = now.isoformat()
    record["_sdc_batched_at"] = (batch_start or now).isoformat()
    record["_sdc_deleted_at"] = record.get("_sdc_deleted_at")
    record["_sdc_sequence"] = round(time.time() * 1000)
    record["_sdc_table_version"] = message.get("version")
    record["_sdc_sync_started_at"] = sync_started_at


def remove_metadata(record: Record) -> None:
    """Remove the ``_sdc_`` metadata columns, which a tap may have added, from a record in place."""
    for name in METADATA_COLUMNS:
        record.pop(name, None)
