"""Limit on the size of schemas, because each property costs time and memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tap_core.exceptions import LimitExceededError
from tap_core.limits.environment import Limit

__all__ = ["SCHEMA_OBJECTS", "check_schema_size", "count_objects"]

SCHEMA_OBJECTS: Final = Limit("TAP_CORE_SCHEMA_OBJECTS", 30_000)
"""Maximum number of JSON objects in a schema: one per property, two per nested object."""


def check_schema_size(schema: object, stream: str) -> None:
    """Check that the schema of a stream is not too large.

    Raises:
        LimitExceededError: The schema has more JSON objects than `SCHEMA_OBJECTS` allows.
    """
    limit = SCHEMA_OBJECTS.whole
    if count_objects(schema, most=limit) > limit:
        raise LimitExceededError(
            f"The schema of stream '{stream}' has more than {limit:,} JSON objects, including"
            " one for each property: select fewer properties, or raise"
            f" {SCHEMA_OBJECTS.variable}."
        )


def count_objects(schema: object, *, most: int) -> int:
    """Return the number of JSON objects in a schema. Counting stops above ``most``.

    A property counts as one object, and a property with a nested object as two.
    """
    count = 0
    waiting: list[Any] = [schema]
    while waiting and count <= most:
        value = waiting.pop()
        if isinstance(value, Mapping):
            count += 1
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return count
