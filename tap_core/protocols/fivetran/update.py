"""One Update: a tap is synced in a thread of its own while its responses leave.

Rules of the room: the tap is made here, as Update needs no Schema before it. No state, an empty
one and ``{}`` mean that nothing was synced. What is not wanted is not read, and its state stays
as it is. Whoever made the call may leave at any time: the sync ends at its next record, and
nothing of it hinders another. What a sync fails with is raised behind all that it has sent, a
state included. Source: Fivetran's Partner SDK development guide, "Update", and
connector_sdk.proto, ``UpdateRequest``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Protocol, TypeAlias

from tap_core.exceptions import StateFileError
from tap_core.protocols.fivetran.bounded_queue import BoundedByteQueue, CallEndedError
from tap_core.protocols.fivetran.columns import TableId
from tap_core.protocols.fivetran.selection import Selection, TableSelection, build_catalog
from tap_core.protocols.fivetran.tables import SourceTable, build_tables, identity_name, select_all
from tap_core.protocols.fivetran.update_writer import UpdateWriter
from tap_core.protocols.interfaces import TapProtocol
from tap_core.protocols.resume import find_previously_sent, retained_bookmarks
from tap_core.singerlib.catalog import REPLICATION_FULL_TABLE, Catalog
from tap_core.state.reader import parse_json

__all__ = ["UpdateCall", "UpdateLog", "discover_tables", "parse_state", "update"]

_logger = logging.getLogger(__name__)

UpdateLog: TypeAlias = Mapping[TableId, SourceTable]
"""Tables as they were told before."""


class UpdateCall(Protocol):
    """The call that is answered: `server.Call`."""

    def on_end(self, callback: Callable[[], None], /) -> None:
        """Have something called when it ends."""

    def note(self, text: str, /) -> None:
        """Set what the log says of it."""


def discover_tables(tap: TapProtocol) -> tuple[SourceTable, ...]:
    """Return all tables that a tap has, with all columns that can be selected.

    From then on the tap has everything selected.
    """
    tap.use_catalog(select_all(tap.streams.values()))
    tap.setup_mapper()
    return build_tables(tap.streams)


def parse_state(text: str) -> dict[str, Any]:
    """Read the state that comes with a request.

    Raises:
        StateFileError: it is no JSON object.
    """
    if not text.strip():
        return {}
    try:
        found = parse_json(text.encode())
    except ValueError as fault:
        raise StateFileError(
            "The state that came with the call cannot be read: it is no JSON. It has to be one"
            " that an earlier sync gave, or {} to begin anew."
        ) from fault
    if not isinstance(found, dict | None):
        raise StateFileError(
            "The state that came with the call is a JSON"
            f" {'list' if isinstance(found, list) else 'value'} and has to be an object."
        )
    return found or {}


def update(
    make_tap: Callable[[], TapProtocol],
    request: Any,
    call: UpdateCall,
    told: UpdateLog | None = None,
) -> Iterator[bytes]:
    """Yield the responses of an Update.

    ``told`` is what Schema answered for these settings, where it was asked in this process.
    """
    backlog = BoundedByteQueue()
    call.on_end(backlog.leave)
    job = _Job(make_tap, request, call, backlog, told)
    work = copy_context().run  # the log knows the call by it
    threading.Thread(target=work, args=(job.run,), name="fivetran-update", daemon=True).start()
    try:
        yield from backlog
    finally:
        backlog.leave()


class _Job:
    """The sync of one call, in its own thread."""

    def __init__(
        self,
        make_tap: Callable[[], TapProtocol],
        request: Any,
        call: UpdateCall,
        backlog: BoundedByteQueue,
        told: UpdateLog | None,
    ) -> None:
        self._make_tap = make_tap
        self._request = request
        self._call = call
        self._backlog = backlog
        self._told = told

    def run(self) -> None:
        """Sync, and say at the end how that went."""
        try:
            self._sync()
        except BaseException as error:  # noqa: BLE001  SystemExit too: the server lives on
            if self._backlog.is_left:
                _logger.debug("The sync of a call that has ended is over: %r", error)
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
        outlet = UpdateWriter(self._backlog, tables, wanted, self._told)
        tap.speak_by(outlet)
        try:
            tap.sync_all()
        except BaseException:
            if not tap.run.is_broken:
                with suppress(CallEndedError):
                    outlet.break_off()
            raise
        finally:
            self._call.note(outlet.summary)
        outlet.finish(tap.document.encode())


def _chosen(
    tap: TapProtocol, selection: Selection | None
) -> tuple[Sequence[SourceTable], Callable[[TableId], TableSelection | None]]:
    """Let a tap have selected what is wanted; return its tables and what is wanted of each."""
    if selection is None:
        tap.use_catalog(identity_name(tap.streams.values()))
        tap.setup_mapper()
        return build_tables(tap.streams), Selection().of_table
    tables = discover_tables(tap)
    catalog: Catalog = build_catalog(tap.streams, tables, selection.of_table)
    tap.use_catalog(catalog)
    return tables, selection.of_table


def _resume(tap: TapProtocol, state: dict[str, Any]) -> None:
    """Take a state over; parents of what is wanted for the first time begin again."""
    found = state.get("bookmarks")
    bookmarks: dict[str, Any] = found if isinstance(found, dict) else {}
    kept = retained_bookmarks(bookmarks, tap.streams, _begins)
    tap.load_state({**state, "bookmarks": kept})
    for name, before in find_previously_sent(bookmarks, tap.streams, _begins).items():
        tap.streams[name].sent_before = before


def _begins(stream: Any, state: Any) -> bool:
    """Tell whether a stream has nothing to go on from, or is truncated before it is read."""
    truncates = stream.emit_activate_version_messages
    return state is None or (stream.replication_method == REPLICATION_FULL_TABLE and truncates)
