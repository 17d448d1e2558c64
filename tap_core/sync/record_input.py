"""What an author's generator may yield besides a dict: nothing, another mapping, or a pair.

Rules of the room: the pair of a record and its child context is deprecated, and warned of.
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
    """Return the record of what an author yielded: it may be a pair, or None for none."""
    record = split_record_and_context(pulled)[0] if isinstance(pulled, tuple) else pulled
    return dict(record) if is_not_dict(record) else record


def is_not_dict(record: Any) -> bool:
    """Tell whether a record is a mapping of another kind: encoders know dicts only."""
    return isinstance(record, Mapping) and not isinstance(record, dict)


def split_record_and_context(
    record: tuple[Record, Context | None],
) -> tuple[Record, Context | None]:
    """Take the deprecated pair of a record and its child context apart."""
    warnings.warn(
        "Yielding a tuple of (record, child_context) is deprecated: yield the record, and"
        " say the context in get_child_context or generate_child_contexts.",
        SingerSDKDeprecationWarning,
        stacklevel=2,
    )
    return record
