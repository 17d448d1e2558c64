"""How many threads a stream may have, and whether other processes may read it.

Rules of the room: threads are an author's to allow (``max_parallel_partitions``,
``max_parallel_streams``) and a user's to forbid: the settings of these names lower an
author's numbers and never raise them. What runs in one thread has all that is synced
below it in there too, so the smallest number of a family counts. What cannot be split,
or has to keep the order of its contexts, runs in one thread.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tap_core.exceptions import ConfigurationError
from tap_core.singerlib.catalog import REPLICATION_INCREMENTAL
from tap_core.sync.override_detection import is_overridden

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream
    from tap_core.sync.sync_run import SyncRun

__all__ = [
    "apply_user_limit",
    "can_distribute",
    "explain_not_distributed",
    "get_child_thread_count",
    "get_thread_count",
    "stream_classes",
]

_OURS = ("tap_core", "builtins", "abc")
_WHOLE = ("_sync_records", "state_manager")
"""Hooks that know all contexts of a sync, or keep state in a way of their own."""


def apply_user_limit(number: int, config: Mapping[str, Any], setting: str) -> int:
    """Return an author's number, or what a user's setting says if that is less.

    Raises:
        ConfigurationError: the setting is no whole number of at least 1.
    """
    if number <= 1:
        return 1
    wanted = config.get(setting)
    if wanted is None:
        return number
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1:
        raise ConfigurationError(
            f"The setting '{setting}' is {wanted!r}. It is a whole number of at least 1."
        )
    return min(number, wanted)


def get_thread_count(stream: SyncStream) -> int:
    """Return in how many threads the contexts of a stream may be synced."""
    if stream.max_parallel_partitions <= 1:
        return 1
    return min(map(_own_limit, _family(stream)))


def get_child_thread_count(stream: SyncStream) -> int:
    """Return in how many threads the children of a stream may be synced beside it."""
    children = _selected(stream.child_streams)
    return min(map(get_thread_count, children), default=1)


def explain_not_distributed(stream: SyncStream) -> str | None:
    """Say why the contexts of a stream must be synced by one process; None: they need not be."""
    makes = stream.get_batch_config(stream.config) is not None or _makes_batches(stream)
    reasons = (
        (
            is_overridden(stream, "_sync_records", "state_manager"),
            "it overrides _sync_records or state_manager, which know all contexts of a sync",
        ),
        (makes, "its rows go into files of its own (batch_config)"),
        (stream.ABORT_AT_RECORD_COUNT is not None, "it ends after a number of records"),
        (stream._is_read_by_one, "its jobs at the source are counted by one process"),
        (_keeps_order(stream), "its contexts share a bookmark that counts on their order"),
        (
            stream.state_partition_limit is not None,
            "the number of its bookmarks is limited (state_partition_limit)",
        ),
        (stream._tap.shared_state, "the streams of the tap share a position"),
    )
    return next((reason for holds, reason in reasons if holds), None)


def can_distribute(run: SyncRun, *streams: SyncStream) -> bool:
    """Tell whether the contexts of streams are synced elsewhere; where not, why is logged."""
    spreader = run.outbox.spreader
    if spreader is None or not streams or run.leader is not None:
        return False
    told = [
        (stream, explain_not_distributed(stream) or spreader.refuses(stream)) for stream in streams
    ]
    for stream, why in told:
        if why is not None:
            stream.log("'%s' is read by one process: %s.", stream.name, why)
    return all(why is None for _, why in told)


def stream_classes(tap_class: type) -> Iterator[Any]:
    """Yield the stream classes that are named where a tap class is written.

    That is its module, and the modules of its package that are named there.
    """
    for kind in tap_class.__mro__:
        module = sys.modules.get(kind.__module__)
        if module is not None and module.__name__.partition(".")[0] not in _OURS:
            yield from filter(_is_stream_class, _iterate_names(module))


def _iterate_names(module: ModuleType) -> Iterator[Any]:
    package = module.__name__.partition(".")[0]
    for value in list(vars(module).values()):
        if isinstance(value, ModuleType) and value.__name__.partition(".")[0] == package:
            yield from list(vars(value).values())
        else:
            yield value


def _is_stream_class(value: Any) -> bool:
    return isinstance(value, type) and hasattr(value, "max_parallel_partitions")


def _family(stream: SyncStream) -> Iterator[SyncStream]:
    """Yield a stream, and all that is synced below it."""
    yield stream
    for child in _selected(stream.child_streams):
        yield from _family(child)


def _selected(streams: Sequence[SyncStream]) -> list[SyncStream]:
    return [one for one in streams if one.selected or one.has_selected_descendents]


def _own_limit(stream: SyncStream) -> int:
    limit = apply_user_limit(
        stream.max_parallel_partitions, stream.config, "max_parallel_partitions"
    )
    if limit == 1 or stream.ABORT_AT_RECORD_COUNT is not None or _keeps_order(stream):
        return 1
    if is_overridden(stream, *_WHOLE) or _makes_batches(stream):
        stream.log(
            "max_parallel_partitions of stream '%s' has no effect: the stream makes its batches"
            " itself, or overrides _sync_records or state_manager, and so its contexts are"
            " synced in turn.",
            stream.name,
            level=logging.WARNING,
        )
        return 1
    return limit


def _makes_batches(stream: SyncStream) -> bool:
    """Tell whether rows go into files of an author's own making."""
    config = stream.get_batch_config(stream.config)
    if config is None:
        return False
    from tap_core.batch.writer import is_builtin_encoding

    own = is_overridden(stream, "get_batches", "_sync_batches", "_write_batch_message")
    return own or not is_builtin_encoding(config.encoding)


def _keeps_order(stream: SyncStream) -> bool:
    """Tell whether a bookmark that contexts share is that of the last one, not the highest."""
    return (
        stream.state_partitioning_keys is not None
        and not stream.check_sorted
        and stream.replication_method == REPLICATION_INCREMENTAL
    )
