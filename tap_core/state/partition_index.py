"""Index of the list of partitions in a state document, for lookup in constant time.

- In the document, the partitions of a stream are a list of ``{"context": {...}, ...}``. A context
  contains the values that identify a partition. The index does not change the list, except to
  append a partition.
- Two contexts are the same partition if they are equal with Python's ``==`` (1 and 1.0 are, 1 and
  "1" are not), or if they are equal after conversion to JSON and back.
- Entries appended to the list by other code are added to the index. After any other change of the
  list the index is rebuilt.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable, Mapping
from decimal import Decimal
from typing import Any

from tap_core.exceptions import StateFileError, StreamSetupError
from tap_core.types import Context

__all__ = ["PartitionIndex", "freeze_context"]

_PLAIN = frozenset({str, int, float, bool, type(None)})
_DUPLICATE = -1


def freeze_context(context: Context) -> Hashable:
    """Return a hashable key for a context, the dict of values that identifies a partition.

    Equal contexts have equal keys, even if they are nested.

    Raises:
        StateFileError: The context is nested too deeply.
    """
    if _PLAIN.issuperset(map(type, context.values())):
        return frozenset(context.items())
    try:
        return frozenset((key, _freeze_value(value)) for key, value in context.items())
    except RecursionError:
        raise StateFileError("The context of a partition is nested too deeply.") from None


class PartitionIndex:
    """Index of a state's ``partitions`` list, to find an entry by its context quickly.

    The context of a partition is the dict of values that identifies it. Entries without a context
    stay in the list, but are not in the index.

    Args:
        entries: The ``partitions`` list, which is not copied.
    """

    __slots__ = ("_count", "_first", "_last", "_positions", "_recent", "_recent_entry", "entries")

    _count: int
    _first: object
    _last: object
    _positions: dict[Hashable, int]
    _recent: int | None
    _recent_entry: dict[str, Any]

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self.entries: list[dict[str, Any]] = entries
        self._reset()

    def position(self, context: Context) -> int | None:
        """Return the position of a partition in the ``partitions`` list, or None if it is absent.

        Raises:
            ValueError: Two entries have this context.
        """
        recent = self._recent
        if (
            self._count == len(self.entries)
            and recent is not None
            and self.entries[recent] is self._recent_entry
            and self._recent_entry.get("context") == context
        ):
            return recent
        position = self._recent = self._look_up(context)
        if position is not None:
            self._recent_entry = self.entries[position]
        return position

    def find(self, context: Context) -> dict[str, Any] | None:
        """Return the entry of a partition in the ``partitions`` list, or None if it is absent.

        Raises:
            ValueError: Two entries have this context.
        """
        position = self.position(context)
        return None if position is None else self.entries[position]

    def find_or_add(self, context: Context) -> dict[str, Any]:
        """Return the entry of a partition in the ``partitions`` list; append one if it is absent.

        Raises:
            ValueError: Two entries have this context.
        """
        return self.entries[self.position_or_add(context)]

    def position_or_add(self, context: Context) -> int:
        """Return the position of a partition in the ``partitions`` list; append it if it is absent.

        Raises:
            ValueError: Two entries have this context.
        """
        position = self.position(context)
        if position is not None:
            return position
        self.entries.append({"context": dict(context)})
        return len(self.entries) - 1

    def _look_up(self, context: Context) -> int | None:
        """Return the position of a partition in the ``partitions`` list; None if it is absent."""
        key = freeze_context(context)
        self._catch_up()
        position = self._positions.get(key)
        if position is None or (position != _DUPLICATE and self._is_match(position, key, context)):
            return position
        self._reset()  # a moved entry may look like a duplicate
        self._catch_up()
        return self._reject_duplicate(self._positions.get(key), context)

    def _reset(self) -> None:
        self._positions = {}
        self._count = 0
        self._first = self._last = None
        self._recent = None
        self._recent_entry = {}

    def _catch_up(self) -> None:
        """Update this index after other code has appended entries to the ``partitions`` list.

        If the list has changed in another way, rebuild the whole index.
        """
        entries, count = self.entries, self._count
        is_prefix = not count or (
            count <= len(entries) and entries[0] is self._first and entries[count - 1] is self._last
        )
        if is_prefix and count == len(entries):
            return
        if not is_prefix:
            self._reset()
            count = 0
        duplicates = [self._add(position) for position in range(count, len(entries))]
        if count and any(duplicates):  # entries may have been moved to other positions
            self._reset()
            for position in range(len(entries)):
                self._add(position)
        self._count = len(entries)
        self._first, self._last = (entries[0], entries[-1]) if entries else (None, None)

    def _add(self, position: int) -> bool:
        """Add the entry at a position of the ``partitions`` list to this index.

        Return True if an earlier entry has the same context, which is then marked as a duplicate.
        """
        context = _get_context(self.entries[position])
        if context is None:
            return False
        key = freeze_context(context)
        is_duplicate = key in self._positions
        self._positions[key] = _DUPLICATE if is_duplicate else position
        return is_duplicate

    def _is_match(self, position: int, key: Hashable, context: Context) -> bool:
        indexed = _get_context(self.entries[position])
        return indexed is not None and (indexed == context or freeze_context(indexed) == key)

    def _reject_duplicate(self, position: int | None, context: Context) -> int | None:
        if position == _DUPLICATE:
            raise StreamSetupError(
                f"The state has more than one entry for the partition {dict(context)}. "
                "Keep the one with the right bookmark and remove the others."
            )
        return position


def _get_context(entry: Any) -> Context | None:
    context = entry.get("context") if isinstance(entry, dict) else None
    return context if isinstance(context, Mapping) else None


def _freeze_value(value: Any) -> Hashable:
    if type(value) in _PLAIN:
        hashable: Hashable = value
        return hashable
    if isinstance(value, Mapping):
        return freeze_context(value)
    if isinstance(value, (list, tuple)):
        return tuple(_freeze_value(item) for item in value)
    return _convert_as_json(value)


def _convert_as_json(value: Any) -> Hashable:
    """Convert a value to the value that it becomes when written as JSON and read again.

    For example, a `datetime.date` becomes its ISO 8601 text.
    """
    for kind, convert in _JSON_CONVERSIONS:
        if isinstance(value, kind):
            return convert(value)
    return str(value) if not isinstance(value, (str, int, float)) else value


def _convert_decimal(value: Decimal) -> Hashable:
    nearest = float(value)
    return nearest if Decimal(repr(nearest)) == value else value


_JSON_CONVERSIONS: tuple[tuple[type, Callable[[Any], Hashable]], ...] = (
    (Decimal, _convert_decimal),
    (dt.datetime, dt.datetime.isoformat),
    (dt.date, str),
)
