"""Handler of Fivetran's Update call: a tap syncs in a thread while its responses are sent.

- Each call creates a new tap. A missing state, an empty state and ``{}`` mean that nothing was
  synced before.
- Unselected streams are not read, and their state is unchanged.
- The client may end the call at any time. The sync then stops at its next record, without effect on
  other calls. Until then the call counts against the server's limits of calls and memory.
- An error of the sync is raised after its responses and a last state have been sent.

Source: Fivetran's Partner SDK development guide, "Update", and connector_sdk.proto,
``UpdateRequest``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, TypeAlias

from tap_core.exceptions import StateFileError
from tap_core.protocols.fivetran.bounded_queue import BoundedByteQueue, CallEndedError
from tap_core.protocols.fivetran.columns import TableId
from tap_core.protocols.fivetran.grpc_server import RpcCall
from tap_core.protocols.fivetran.selection import Selection, TableSelection, build_catalog
from tap_core.protocols.fivetran.tables import (
    SourceTable,
    build_tables,
    default_catalog,
    select_all,
)
from tap_core.protocols.fivetran.update_writer import UpdateWriter
from tap_core.protocols.resume import split_bookmarks
from tap_core.singerlib.catalog import REPLICATION_FULL_TABLE
from tap_core.state.reader import check_bookmarks, parse_json
from tap_core.sync.interfaces import SyncTap

__all__ = ["KnownTables", "discover_tables", "parse_state", "update"]

_logger = logging.getLogger(__name__)

KnownTables: TypeAlias = Mapping[TableId, SourceTable]
"""Tables whose columns Fivetran already knows, by table ID."""


def discover_tables(tap: SyncTap) -> tuple[SourceTable, ...]:
    """Return all Fivetran tables of a tap, with all columns that the user can select.

    As a side effect, the tap's catalog selects all streams and properties afterwards.
    """
    tap.use_catalog(select_all(tap.streams.values()))
    tap.setup_mapper()
    return build_tables(tap.streams)


def parse_state(text: str) -> dict[str, Any]:
    """Parse the JSON state in an UpdateRequest. A blank text or ``null`` becomes ``{}``.

    Raises:
        StateFileError: The state is not a JSON object.
    """
    if not text.strip():
        return {}
    try:
        state = parse_json(text.encode())
    except ValueError as error:
        raise StateFileError(
            "The state of the call cannot be read: it is not JSON. Send the state of an earlier"
            " sync, or {} to sync from the beginning."
        ) from error
    if not isinstance(state, dict | None):
        raise StateFileError(
            "The state of the call is a JSON"
            f" {'list' if isinstance(state, list) else 'value'}, but must be an object."
        )
    return state or {}


def update(
    open_tap: Callable[[], AbstractContextManager[SyncTap]],
    request: Any,
    call: RpcCall,
    known_tables: KnownTables | None = None,
) -> Iterator[bytes]:
    """Sync a tap in a thread for the RPC `Update`, and yield the encoded responses.

    Args:
        open_tap: Creates the tap, and closes it at the end of the block.
        request: The UpdateRequest message, which has the selection and the state.
        call: The gRPC call. If it ends early, the sync stops.
        known_tables: Tables that the last Schema call with the same configuration returned, so that
            Fivetran knows their columns. None if this process has handled no such call.
    """
    queue = BoundedByteQueue()
    call.on_end(queue.leave)
    job = _UpdateJob(open_tap, request, call, queue, known_tables)
    run = copy_context().run  # the log finds the current call in a context variable
    thread = threading.Thread(target=run, args=(job.run,), name="fivetran-update", daemon=True)
    thread.start()
    try:
        yield from queue
    finally:
        queue.leave()
        call.wait_for_thread(thread)


@dataclass(frozen=True, slots=True)
class _UpdateJob:
    """Sync of a tap for one Update call of Fivetran, run in a thread by the method `run`."""

    open_tap: Callable[[], AbstractContextManager[SyncTap]]
    request: Any
    call: RpcCall
    queue: BoundedByteQueue
    known_tables: KnownTables | None

    def run(self) -> None:
        """Sync the tap, and put the encoded responses into `queue`; then mark the end of the queue.

        If the sync fails, the queue raises its error in the thread that takes the responses.
        """
        try:
            self._sync()
        except BaseException as error:  # noqa: BLE001  SystemExit too: the server continues
            if self.queue.is_left:
                _logger.debug("The sync of an ended call has stopped: %r", error)
            self.queue.end(error)
        else:
            self.queue.end()

    def _sync(self) -> None:
        """Create the tap with the state and the selection of the request, and sync it."""
        state = parse_state(self.request.state_json)
        selection = Selection.from_request(self.request)
        with self.open_tap() as tap:
            self._sync_tap(tap, selection, state)

    def _sync_tap(self, tap: SyncTap, selection: Selection | None, state: dict[str, Any]) -> None:
        self.queue.check()
        tables, find_selection = _apply_selection(tap, selection)
        self.queue.check()
        _resume(tap, state)
        writer = UpdateWriter(
            self.queue,
            tables,
            find_selection,
            self.known_tables,
            tap.document.encode(),
            self.call.request_limit,
        )
        tap.set_protocol_writer(writer)
        try:
            tap.sync_all()
        except BaseException:
            if not tap.run.is_broken:
                with suppress(CallEndedError):
                    writer.break_off()
            raise
        finally:
            self.call.note(writer.summary)
        writer.finish(tap.document.encode())


def _apply_selection(
    tap: SyncTap, selection: Selection | None
) -> tuple[Sequence[SourceTable], Callable[[TableId], TableSelection | None]]:
    """Set the catalog of a tap, so that it selects the user's tables and columns.

    Without a ``selection``, the catalog has the tap's default selection.

    Returns:
        The Fivetran tables of the tap, and a function that returns the column selection of a table,
        or None if the table is not selected.
    """
    if selection is None:
        tap.use_catalog(default_catalog(tap.streams.values()))
        tap.setup_mapper()
        return build_tables(tap.streams), Selection().find_table_selection
    tables = discover_tables(tap)
    tap.use_catalog(build_catalog(tap.streams, tables, selection.find_table_selection))
    return tables, selection.find_table_selection


def _resume(tap: SyncTap, state: dict[str, Any]) -> None:
    """Load the Singer state of a Fivetran request into the tap, so that its streams resume from it.

    A stream without a usable state starts from the beginning, and its parent streams do so too.

    Raises:
        StateFileError: A value in the state has the wrong type.
    """
    check_bookmarks(state)
    kept, previous = split_bookmarks(state.get("bookmarks") or {}, tap.streams, _is_restarted)
    tap.load_state({**state, "bookmarks": kept})
    tap.document.input_state = state
    for name, sent_state in previous.items():
        tap.streams[name].previously_sent_state = sent_state


def _is_restarted(stream: Any, state: Any) -> bool:
    """Return True if a sync must read a stream from the beginning.

    This is so if the stream has no state (None), or if it is a full-table stream that truncates its
    table at the start of each sync.
    """
    truncates = stream.emit_activate_version_messages
    return state is None or (stream.replication_method == REPLICATION_FULL_TABLE and truncates)
