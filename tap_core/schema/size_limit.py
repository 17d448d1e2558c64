"""A bound on schemas of others: each property takes time and memory before a row has come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tap_core.exceptions import LimitExceededError
from tap_core.limits.environment import Limit

__all__ = ["SCHEMA_OBJECTS", "check_schema_size"]

SCHEMA_OBJECTS: Final = Limit("TAP_CORE_SCHEMA_OBJECTS", 30_000)
"""Objects of JSON in a schema: one for each property, two for one with properties of its own."""


def check_schema_size(schema: object, stream: str) -> None:
    """Raise an error for a schema with too many properties.

    Raises:
        LimitExceededError: it has.
    """
    most, count = SCHEMA_OBJECTS.whole, 0
    waiting: list[Any] = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            count += 1
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
        if count > most:
            raise LimitExceededError(
                f"The schema of stream '{stream}' has more than {most:,} objects, which are its"
                " properties and what is in them: select fewer properties, or raise"
                f" {SCHEMA_OBJECTS.variable}."
            )
