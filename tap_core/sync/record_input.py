"""Checks of the records and contexts that an author's code returns, and conversion of records.

Besides a dict, ``get_records`` may yield None, another mapping, or a (record, child context) tuple.
A child context contains the values of the record that its child streams need. The tuple is
deprecated and causes a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tap_core.exceptions import FatalSyncError, SingerSDKDeprecationWarning

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream
    from tap_core.types import Context, Record

__all__ = [
    "as_record",
    "call_get_records",
    "check_context",
    "check_record",
    "split_record_and_context",
]


def call_get_records(stream: SyncStream, context: Context | None) -> Iterable[Any]:
    """Call a stream's ``get_records`` for a context (partition), and return the records.

    Raises:
        FatalSyncError: ``get_records`` returned None, as a method without ``yield`` does.
    """
    records: Iterable[Any] | None = stream.get_records(context)
    if records is None:
        raise FatalSyncError(
            f"Stream '{stream.name}': get_records returned None: yield one dict for each record, or"
            " return an iterable of dicts."
        )
    return records


def as_record(pulled: Any, stream: str) -> Any:
    """Convert ``pulled``, a value that ``get_records`` has yielded, to a dict; keep None.

    A (record, child context) tuple is converted to its record. The error message names ``stream``.

    Raises:
        FatalSyncError: The value is neither a mapping nor None.
    """
    record = split_record_and_context(pulled)[0] if isinstance(pulled, tuple) else pulled
    check_record(record, stream)
    return record if record is None or isinstance(record, dict) else dict(record)


def check_record(record: Any, stream: str) -> None:
    """Raise `FatalSyncError` if a value is neither a mapping nor None.

    The message names the stream and the type of the value, but does not contain the value.
    """
    if record.__class__ is not dict and record is not None and not isinstance(record, Mapping):
        raise FatalSyncError(
            f"Stream '{stream}': a record must be a dict, but the stream returned a value of type"
            f" '{type(record).__name__}': yield one dict for each record from get_records,"
            " parse_response or post_process."
        )


def check_context(context: Any, stream: str, origin: str) -> None:
    """Raise `FatalSyncError` if a context is neither a mapping nor empty.

    A context contains the values that identify a partition or parent record. The message names the
    stream and ``origin``, the member of a class that returned the context.
    """
    if context and not isinstance(context, Mapping):
        raise FatalSyncError(
            f"Stream '{stream}': a context must be a dict, but {origin} returned one of type"
            f" '{type(context).__name__}'."
        )


def split_record_and_context(
    record: tuple[Record, Context | None],
) -> tuple[Record, Context | None]:
    """Return a (record, child context) tuple unchanged, and warn that yielding it is deprecated."""
    warnings.warn(
        "Yielding a tuple of (record, child_context) is deprecated: yield the record, and"
        " return the context from get_child_context or generate_child_contexts.",
        SingerSDKDeprecationWarning,
        stacklevel=2,
    )
    return record
