"""Detection of methods and properties of the SDK that a tap's code overrides.

The result decides, for example, if a stream is synced on the fast path (without these methods).
"""

from __future__ import annotations

from typing import Any

__all__ = ["BATCH_HOOKS", "OVERRIDABLE_HOOKS", "get_member", "is_overridden"]

OVERRIDABLE_HOOKS = (
    "_check_max_record_limit",
    "_generate_record_messages",
    "_get_state_partition_context",
    "_increment_stream_state",
    "_process_record",
    "_sync_records",
    "_write_record_message",
    "state_manager",
)
"""Stream members that the fast path does not call."""

BATCH_HOOKS = (
    "_generate_batch_messages",
    "_sync_batches",
    "_write_batch_message",
    "get_batches",
)
"""Stream methods that a tap overrides to make batch files or BATCH messages itself."""


def is_overridden(stream: Any, *names: str) -> bool:
    """Return True if a stream or tap overrides at least one of the named members of the SDK.

    An override may be in the class or on the object. The SDK's members are in ``stream._HOOKS``.
    """
    instance_members = getattr(stream, "__dict__", {})
    return any(
        name in instance_members or get_member(type(stream), name) is not stream._HOOKS[name]
        for name in names
    )


def get_member(owner: type, name: str) -> Any:
    """Return the member ``name`` of the class ``owner`` without evaluating it.

    For a property, return the property object.

    Raises:
        StopIteration: The class has no member of this name.
    """
    return next(vars(base)[name] for base in owner.__mro__ if name in vars(base))
