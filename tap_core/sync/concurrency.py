"""Number of threads per stream, and the streams that may be synced in other processes.

- A tap's code sets the maximum (``max_parallel_partitions``, ``max_parallel_streams``). The
  settings of the same names can lower these numbers, but not raise them.
- A thread also syncs all descendants of its stream. So the smallest number of the stream and its
  descendants applies.
- A context (partition or parent record) may depend on another, or have to keep its order. The
  stream then uses one thread.
- `tap_core.sync.engine` distributes the contexts of a stream, in the order of ``partitions``;
  `tap_core.sync.stream_scheduler` orders the streams.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from tap_core.exceptions import ConfigurationError
from tap_core.singerlib.catalog import REPLICATION_INCREMENTAL
from tap_core.sync.override_detection import is_overridden
from tap_core.sync.stream_selection import get_synced_children

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream
    from tap_core.sync.sync_run import SyncRun

__all__ = [
    "apply_user_limit",
    "can_distribute",
    "explain_not_distributed",
    "find_stream_classes",
    "get_child_thread_count",
    "get_thread_count",
    "may_be_parallel",
]

_SDK_PACKAGES = ("tap_core", "builtins", "abc")
_WHOLE_SYNC_HOOKS = ("_sync_records", "state_manager")
"""Members of a stream that, if overridden, may depend on all partitions of a sync."""


def apply_user_limit(number: int, config: Mapping[str, Any], setting: str) -> int:
    """Return the smaller of two thread numbers: the tap's own and the user's limit.

    Args:
        number: Number of threads that the tap's code allows.
        config: Settings of the user.
        setting: Name of the setting with the limit, such as ``max_parallel_partitions``.

    Raises:
        ConfigurationError: The setting is not an integer of at least 1, or the number in the tap's
            code is not an integer.
    """
    if not isinstance(cast(object, number), int):
        raise ConfigurationError(
            f"'{setting}' is {number!r} in the tap's code. It must be an integer of at least 1."
        )
    if number <= 1:
        return 1
    limit = config.get(setting)
    if limit is None:
        return number
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ConfigurationError(
            f"The setting '{setting}' is {limit!r}. It must be an integer of at least 1."
        )
    return min(number, limit)


def may_be_parallel(number: object) -> bool:
    """Return True if a class attribute allows more than one thread.

    If the attribute is a property, return True, because only an object knows the number.
    """
    return not isinstance(number, int) or number > 1


def get_thread_count(stream: SyncStream) -> int:
    """Return the number of threads that may sync partitions of a stream in parallel, at least 1."""
    if not may_be_parallel(stream.max_parallel_partitions):
        return 1
    return min(map(_get_own_limit, _iterate_family(stream)))


def get_child_thread_count(stream: SyncStream) -> int:
    """Return the number of threads that sync a stream's children while it is read, at least 1."""
    return min(map(get_thread_count, get_synced_children(stream)), default=1)


def explain_not_distributed(stream: SyncStream) -> str | None:
    """Return the reason if several processes cannot sync the partitions of a stream.

    The reason is part of a log message, such as "its rows are written to batch files". Return None
    if several processes can sync them.
    """
    reasons = (
        (
            is_overridden(stream, *_WHOLE_SYNC_HOOKS),
            "it overrides _sync_records or state_manager, which handle all contexts of a sync",
        ),
        (
            stream.get_batch_config(stream.config) is not None,
            "its rows are written to batch files (batch_config)",
        ),
        (stream.ABORT_AT_RECORD_COUNT is not None, "it has a record limit (ABORT_AT_RECORD_COUNT)"),
        (stream._is_read_by_one_process, "its jobs at the source are counted by one process"),
        (_keeps_order(stream), "its contexts share a bookmark that depends on their order"),
        (
            stream.state_manager.partition_limit is not None,
            "the number of its bookmarks is limited (state_partition_limit)",
        ),
        (stream._tap.has_shared_state, "the streams of the tap share a state (has_shared_state)"),
    )
    return next((reason for applies, reason in reasons if applies), None)


def can_distribute(run: SyncRun, *streams: SyncStream) -> bool:
    """Return True if other processes may sync the partitions of all ``streams``.

    These processes also sync the descendants of the partitions. Log the reason for each stream that
    must be synced by one process.
    """
    distributor = run.outbox.distributor
    if distributor is None or not streams or run.stop_signal is not None:
        return False
    reasons = [_explain_family(each) or distributor.explain_refusal(each) for each in streams]
    for stream, reason in zip(streams, reasons, strict=True):
        if reason is not None:
            stream.log("'%s' is read by one process: %s.", stream.name, reason)
    return not any(reasons)


def _explain_family(stream: SyncStream) -> str | None:
    """Return the reason why one process must sync a stream or one of its descendants, or None."""
    for member in _iterate_family(stream):
        reason = explain_not_distributed(member)
        if reason is not None:
            return (
                reason
                if member is stream
                else f"because of its descendant '{member.name}': {reason}"
            )
    return None


def find_stream_classes(tap_class: type) -> Iterator[Any]:
    """Yield the stream classes that a tap may have, without creating the tap.

    They are found by name in the modules that define the tap class and its base classes. Modules
    that these import from the same package are searched too.
    """
    for kind in tap_class.__mro__:
        module = sys.modules.get(kind.__module__)
        if module is not None and module.__name__.partition(".")[0] not in _SDK_PACKAGES:
            yield from filter(_is_stream_class, _iterate_values(module))


def _iterate_values(module: ModuleType) -> Iterator[Any]:
    package = module.__name__.partition(".")[0]
    for value in list(vars(module).values()):
        if isinstance(value, ModuleType) and value.__name__.partition(".")[0] == package:
            yield from list(vars(value).values())
        else:
            yield value


def _is_stream_class(value: Any) -> bool:
    return isinstance(value, type) and hasattr(value, "max_parallel_partitions")


def _iterate_family(stream: SyncStream) -> Iterator[SyncStream]:
    """Yield a stream, then those of its descendants that are synced."""
    yield stream
    for child in get_synced_children(stream):
        yield from _iterate_family(child)


def _get_own_limit(stream: SyncStream) -> int:
    """Return the number of threads that a stream and the user allow; ignore its descendants."""
    limit = apply_user_limit(
        stream.max_parallel_partitions, stream.config, "max_parallel_partitions"
    )
    if limit == 1 or stream.ABORT_AT_RECORD_COUNT is not None or _keeps_order(stream):
        return 1
    if is_overridden(stream, *_WHOLE_SYNC_HOOKS) or _makes_batches(stream):
        stream.log(
            "max_parallel_partitions of stream '%s' has no effect: it makes its own batches,"
            " or overrides _sync_records or state_manager, so its contexts are"
            " synced one after the other.",
            stream.name,
            level=logging.WARNING,
        )
        return 1
    return limit


def _makes_batches(stream: SyncStream) -> bool:
    """Return True if a stream has batch files that the tap's code writes, not the SDK."""
    config = stream.get_batch_config(stream.config)
    if config is None:
        return False
    from tap_core.batch.encodings import is_builtin_encoding

    is_own = is_overridden(stream, "get_batches", "_sync_batches", "_write_batch_message")
    return is_own or not is_builtin_encoding(config.encoding)


def _keeps_order(stream: SyncStream) -> bool:
    """Return True if the stream's partitions must be synced one after the other.

    This is the case if the stream is incremental, its partitions share a bookmark, and
    ``check_sorted`` is False. The final bookmark is then the last value of the last partition.
    """
    return (
        stream.state_partitioning_keys is not None
        and not stream.check_sorted
        and stream.replication_method == REPLICATION_INCREMENTAL
    )
