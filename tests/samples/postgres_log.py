"""Database whose tables are published, and which the sample tap reads by its log."""

from __future__ import annotations

import atexit
import copy
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tap_core.protocols.singer.writer import SingerWriter
from tests.postgres import Server, missing_reason, server, server_programs
from tests.samples.postgres_tap import Source, Sync, TapPostgres, parse_lines

__all__ = ["LogSource", "log_server", "log_source"]


class _QuietTap(TapPostgres):
    def _setup_signal_handlers(self) -> None:
        """Leave the signals to pytest."""


@cache
def log_server() -> Server:
    """Start this process's server with logical replication; it ends with the process.

    The test is skipped if the server programs are not installed.
    """
    if server_programs() is None:
        pytest.skip(missing_reason())
    running = server(
        wal_level="logical",
        max_wal_senders="4",
        max_replication_slots="40",
        synchronous_commit="on",  # a run reads what is flushed when it begins
    )
    started = running.__enter__()
    atexit.register(running.__exit__, None, None, None)
    return started


@dataclass(frozen=True)
class LogSource(Source):
    """Database with a publication of all tables, and with a slot of the database's name."""

    written: list[dict[str, Any]] = field(default_factory=list, init=False)
    """Messages of the last `read`, also after an error."""
    _taps: list[TapPostgres] = field(default_factory=list, init=False)
    """Taps whose connections may be open."""

    def read(
        self,
        *streams: str,
        state: dict[str, Any] | None = None,
        without: Collection[str] = (),
        catalog: dict[str, Any] | None = None,
        **settings: Any,
    ) -> Sync:
        """Sync streams by the log in this process; by default all streams.

        Columns in ``without`` are deselected. ``catalog`` replaces the discovered catalog. Errors
        are raised.
        """
        tap = self.make_tap(
            catalog or self.make_catalog(*streams, without=without), state, settings
        )
        output: list[bytes] = []
        tap.protocol_writer = SingerWriter(output.append)
        try:
            tap.sync_all()
        finally:
            self.close_taps()
            self.written[:] = parse_lines(b"".join(output))
        return Sync(list(self.written), 0, "")

    def make_tap(
        self,
        catalog: dict[str, Any] | None = None,
        state: dict[str, Any] | None = None,
        settings: dict[str, Any] | None = None,
    ) -> TapPostgres:
        """Return a tap; without a catalog it reads all streams by the log.

        `close_taps` closes its connections.
        """
        options = {"replication_slot_name": self.database.name, **(settings or {})}
        tap = _QuietTap(
            config={**self.database.settings, **options},
            catalog=copy.deepcopy(catalog or self.make_catalog()),
            state=copy.deepcopy(state),
        )
        self._taps.append(tap)
        return tap

    def close_taps(self) -> None:
        """Close the connections of all taps."""
        while self._taps:
            self._taps.pop().tap_connector._engine.dispose()

    def make_catalog(self, *streams: str, without: Collection[str] = ()) -> dict[str, Any]:
        """Return a catalog in which streams (by default all) are selected as LOG_BASED."""
        entries = self.discover()
        for stream in streams or entries:
            entries[stream]["replication_method"] = "LOG_BASED"
            for entry in entries[stream]["metadata"]:
                if not entry["breadcrumb"] or entry["breadcrumb"][-1] in without:
                    entry["metadata"]["selected"] = not entry["breadcrumb"]
        return {"streams": list(entries.values())}

    def get_confirmed_position(self) -> int:
        """Return the position up to which the server may remove the log."""
        [[position]] = self.run(
            "SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots"
            " WHERE slot_name = current_database()"
        )
        return int(position)

    def drop_slot(self) -> None:
        """Drop the slot, if there is one."""
        self.run(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
            " WHERE slot_name = current_database()"
        )


@contextmanager
def log_source(folder: Path) -> Iterator[LogSource]:
    """Create a database with a publication; drop it and its slot at the end."""
    with log_server().database() as database:
        source = LogSource(database, folder)
        source.run("CREATE PUBLICATION tappostgres FOR ALL TABLES")
        try:
            yield source
        finally:
            source.close_taps()
            source.drop_slot()
