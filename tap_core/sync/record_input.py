"""Normalization of the values that an author's generator may yield.

Besides a dict, a generator may yield None, another mapping, or a pair of a record and its
child context. The pair is deprecated and causes a warning.
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
    "check_record",
    "is_not_dict",
    "split_record_and_context",
]


def call_get_records(stream: SyncStream, context: Context | None) -> Iterable[Any]:
    """Return what a stream's ``get_records`` returns for a context.

    Raises:
        FatalSyncError: It returned None, as a method without ``yield`` and ``return`` does.
    """
    records: Iterable[Any] | None = stream.get_records(context)
    if records is None:
        raise FatalSyncError(
            f"Stream '{stream.name}': get_records returned None: yield one dict for each record, or"
            " return an iterable of dicts."
        )
    return records


def as_record(pulled: Any, stream: str) -> Any:
    """Return the record in a value that ``get_records`` has yielded, without its child context.

    A mapping of another type is converted to a dict. ``stream`` is the name for errors.

    Raises:
        FatalSyncError: The value is no record.
    """
    record = split_record_and_context(pulled)[0] if isinstance(pulled, tuple) else pulled
    check_record(record, stream)
    return dict(record) if is_not_dict(record) else record


def check_record(record: Any, stream: str) -> None:
    """Raise FatalSyncError if a value is neither a mapping nor None. The message has no value."""
    if record is not None and not isinstance(record, Mapping):
        raise FatalSyncError(
            f"Stream '{stream}': a record must be a dict, but the stream returned a value of type"
            f" '{type(record).__name__}': yield one dict for each record from get_records,"
            " parse_response or post_process."
        )


def is_not_dict(record: Any) -> bool:
    """Return True if a record is a mapping but not a dict. The encoders accept only dicts."""
    return isinstance(record, Mapping) and not isinstance(record, dict)


def split_record_and_context(
    record: tuple[Record, Context | None],
) -> tuple[Record, Context | None]:
    """Split a pair of a record and its child context; warn that such pairs are deprecated."""
    warnings.warn(
        "Yielding a tuple of (record, child_context) is deprecated: yield the record, and"
        " return the context from get_child_context or generate_child_contexts.",
        SingerSDKDeprecationWarning,
        stacklevel=2,
    )
    return record
