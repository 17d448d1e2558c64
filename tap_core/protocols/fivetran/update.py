"""One Update call: a tap syncs in a separate thread while its responses are sent.

- The tap is created for the call, because Update requires no Schema call before it. A missing
  state, an empty one and ``{}`` mean that nothing was synced.
- Unselected streams are not read, and their state is unchanged.
- The client may end the call at any time; the sync then stops at its next record, without effect
  on other calls. A sync's error is raised after all its responses, including a state, were sent.

Source: Fivetran's Partner SDK development guide, "Update", and connector_sdk.proto,
``UpdateRequest``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
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
from tap_core.protocols.resume import find_previously_sent, retained_bookmarks
from tap_core.singerlib.catalog import REPLICATION_FULL_TABLE, Catalog
from tap_core.state.reader import parse_json
from tap_core.sync.interfaces import SyncTap

__all__ = ["UpdateLog", "discover_tables", "parse_state", "update"]

_logger = logging.getLogger(__name__)

UpdateLog: TypeAlias = Mapping[TableId, SourceTable]
"""Tables that Fivetran already knows, by ID."""


def discover_tables(tap: SyncTap) -> tuple[SourceTable, ...]:
    """Return all tables of a tap, with all columns that can be selected.

    This also selects all streams and properties in the tap's catalog.
    """
    tap.use_catalog(select_all(tap.streams.values()))
    tap.setup_mapper()
    return build_tables(tap.streams)


def parse_state(text: str) -> dict[str, Any]:
    """Parse the state that Fivetran sent in an UpdateRequest. An empty text is an empty state.

    Raises:
        StateFileError: The state is not a JSON object.
    """
    if not text.strip():
        return {}
    try:
        found = parse_json(text.encode())
    except ValueError as fault:
        raise StateFileError(
            "The state of the call cannot be read: it is not JSON. Send the state of an earlier"
            " sync, or {} to sync from the beginning."
        ) from fault
    if not isinstance(found, dict | None):
        raise StateFileError(
            "The state of the call is a JSON"
            f" {'list' if isinstance(found, list) else 'value'}, but must be an object."
        )
    return found or {}


def update(
    make_tap: Callable[[], SyncTap],
    request: Any,
    call: RpcCall,
    told: UpdateLog | None = None,
) -> Iterator[bytes]:
    """Handle an Update call: sync a tap and yield the encoded responses.

    Args:
        make_tap: Creates the tap.
        request: The UpdateRequest.
        call: The gRPC call.
        told: Tables that the last Schema call with the same configuration returned. None if this
            process had no such call.
    """
    backlog = BoundedByteQueue()
    call.on_end(backlog.leave)
    job = _UpdateJob(make_tap, request, call, backlog, told)
    work = copy_context().run  # the log identifies the call by its context
    threading.Thread(target=work, args=(job.run,), name="fivetran-update", daemon=True).start()
    try:
        yield from backlog
    finally:
        backlog.leave()


class _UpdateJob:
    """Sync of a tap for one Update call. It runs in a separate thread."""

    def __init__(
        self,
        make_tap: Callable[[], SyncTap],
        request: Any,
        call: RpcCall,
        backlog: BoundedByteQueue,
        told: UpdateLog | None,
    ) -> None:
        self._make_tap = make_tap
        self._request = request
        self._call = call
        self._backlog = backlog
        self._told = told

    def run(self) -> None:
        """Sync the tap, and then end the response queue.

        An error is passed on through the queue.
        """
        try:
            self._sync()
        except BaseException as error:  # noqa: BLE001  SystemExit too: the server continues
            if self._backlog.is_left:
                _logger.debug("The sync of an ended call has stopped: %r", error)
            self._backlog.end(error)
        else:
            self._backlog.end()

    def _sync(self) -> None:
        state = parse_state(self._request.state_json)
        selection = Selection.of(self._request)
        tap = self._make_tap()
        self._backlog.check()
        tables, wanted = _chosen(tap, selection)
        self._backlog.check()
        _resume(tap, state)
        writer = UpdateWriter(self._backlog, tables, wanted, self._told)
        tap.set_protocol_writer(writer)
        try:
            tap.sync_all()
        except BaseException:
            if not tap.run.is_broken:
                with suppress(CallEndedError):
                    writer.break_off()
            raise
        finally:
            self._call.note(writer.summary)
        writer.finish(tap.document.encode())


def _chosen(
    tap: SyncTap, selection: Selection | None
) -> tuple[Sequence[SourceTable], Callable[[TableId], TableSelection | None]]:
    """Apply the user's selection, or the tap's default selection if it is None.

    Returns:
        The tables of the tap, and a function that returns the column selection of a table.
    """
    if selection is None:
        tap.use_catalog(default_catalog(tap.streams.values()))
        tap.setup_mapper()
        return build_tables(tap.streams), Selection().of_table
    tables = discover_tables(tap)
    catalog: Catalog = build_catalog(tap.streams, tables, selection.of_table)
    tap.use_catalog(catalog)
    return tables, selection.of_table


def _resume(tap: SyncTap, state: dict[str, Any]) -> None:
    """Load a state into the tap. Streams without a usable state start from the beginning.

    Parent streams start from the beginning too if one of their child streams does.
    """
    found = state.get("bookmarks")
    bookmarks: dict[str, Any] = found if isinstance(found, dict) else {}
    kept = retained_bookmarks(bookmarks, tap.streams, _is_restarted)
    tap.load_state({**state, "bookmarks": kept})
    for name, before in find_previously_sent(bookmarks, tap.streams, _is_restarted).items():
        tap.streams[name].previously_sent_state = before


def _is_restarted(stream: Any, state: Any) -> bool:
    """Return True if a stream must start from the beginning.

    It has no state, or its table is emptied before each full read.
    """
    truncates = stream.emit_activate_version_messages
    return state is None or (stream.replication_method == REPLICATION_FULL_TABLE and truncates)
