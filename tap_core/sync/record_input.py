"""Normalization of the values that an author's generator may yield.

Besides a dict, a generator may yield None, another mapping, or a pair of a record and its
child context. The pair is deprecated and causes a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tap_core.exceptions import SingerSDKDeprecationWarning

if TYPE_CHECKING:
    from tap_core.types import Context, Record

__all__ = ["as_record", "is_not_dict", "split_record_and_context"]


def as_record(pulled: Any) -> Any:
    """Return the record in a value that ``get_records`` has yielded, without its child context.

    A mapping of another type is converted to a dict.
    """
    record = split_record_and_context(pulled)[0] if isinstance(pulled, tuple) else pulled
    return dict(record) if is_not_dict(record) else record


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
