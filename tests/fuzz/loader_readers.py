"""Messages into target-spark's loader, up to where Spark would start.

The real code reads, classifies and spools the rows; only the tables are missing: each commit reads
back its spooled rows.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tap_core.events import SchemaEvent, StreamId
from tap_core.protocols.airbyte.catalog import parse_configured_catalog
from tap_core.protocols.airbyte.reader import AirbyteReader as AirbyteDecoder
from tap_core.protocols.singer.reader import SingerReader as SingerDecoder
from target_spark.airbyte.configured_catalog import build_options, parse_catalog
from target_spark.airbyte.state_format import PerStreamStateFormat
from target_spark.columns import CanWiden, TableSchema
from target_spark.config import settings
from target_spark.config.options import LoadOptions
from target_spark.errors import TargetSparkError
from target_spark.loader.commit_request import CommitRequest, CommitResult
from target_spark.loader.loader import Loader
from target_spark.loader.pending_states import CoveredState, StateFormat
from target_spark.loader.report import Report
from target_spark.storage.spool import SpoolFolder
from target_spark.tables.table import Table, TableLayout
from tests.fuzz.readers import Read

__all__ = ["make_airbyte", "make_singer"]

CATALOG = {
    "streams": [
        {
            "stream": {
                "name": name,
                "namespace": namespace,
                "json_schema": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "integer"},
                        "name": {"type": ["null", "string"]},
                        "at": {"type": ["null", "string"], "format": "date-time"},
                        "tags": {"type": ["null", "array"], "items": {"type": "string"}},
                        "price": {"type": ["null", "number"]},
                        "more": {"type": ["null", "object"]},
                    },
                },
                "supported_sync_modes": ["full_refresh", "incremental"],
            },
            "sync_mode": "incremental",
            "destination_sync_mode": mode,
            "primary_key": [["id"]],
            "cursor_field": ["at"],
            "generation_id": 2,
            "minimum_generation_id": 0,
            "sync_id": 7,
        }
        for name, namespace, mode in [
            ("users", None, "append_dedup"),
            ("orders", "shop", "append"),
            ("visits", "shop", "overwrite"),
        ]
    ]
}
"""The catalog of the corpus's messages."""


class StubEngine:
    """An engine for tables that need no Spark."""

    started = False
    failure: TargetSparkError | None = None

    def begin(self) -> None:
        """Do nothing."""
        self.started = True

    def spark(self) -> Any:
        """Raise an error: no code of these tests may use Spark."""
        raise AssertionError

    def close(self) -> None:
        """Do nothing."""


class DiscardingTables:
    """Tables that store nothing; each commit reads back its spooled rows."""

    @property
    def can_widen(self) -> CanWiden:
        """Allow every type change."""
        return lambda _old, _new: True

    def write(self, work: CommitRequest) -> CommitResult:
        """Read the spooled rows: each is a line of JSON."""
        count = 0
        for path in (path for batch in work.batches for path in batch.paths):
            for line in Path(path).read_bytes().splitlines():
                count += line[:1] == b"{" and line[-1:] == b"}"
        return CommitResult(count, 0, work.covered(), {})

    def prepare(
        self, stream: StreamId, table: Table, table_schema: TableSchema, layout: TableLayout
    ) -> CommitResult:
        """Create no table."""
        return CommitResult(0, 0, None, {})

    def has_other_versions(self, table: Table, version: int) -> bool:
        """Return True, as if there were rows of other versions."""
        return True

    def maintain(self, table: Table, care: Any) -> str | None:
        """Do nothing."""

    def commit_state(self, table: Table, covered: CoveredState) -> None:
        """Store no state."""


def make_singer(folder: Path) -> Read:
    """Return a reader that loads Singer lines."""
    options = settings.load_options({"path": str(folder / "tables"), "format": "delta"})
    return lambda data: _load(folder, options, SingerDecoder, data)


def make_airbyte(folder: Path) -> Read:
    """Return a reader that loads Airbyte's messages, of the streams of a catalog."""
    config = {"path": str(folder / "tables"), "format": "delta"}
    catalog = parse_catalog(parse_configured_catalog(json.dumps(CATALOG), "catalog"), "delta")
    options = build_options(config, catalog)

    def decoder() -> AirbyteDecoder:
        return AirbyteDecoder(catalog.expected, fails_on_undeclared=False)

    return lambda data: _load(folder, options, decoder, data, PerStreamStateFormat())


def _load(
    folder: Path,
    options: LoadOptions,
    make_decoder: Callable[[], Any],
    data: bytes,
    state_format: StateFormat | None = None,
) -> None:
    spool = SpoolFolder(folder / "spool")
    loader = Loader(
        options,
        StubEngine(),
        spool,
        DiscardingTables,
        Report(),
        _take_state,
        state_format=state_format,
    )
    decoder = make_decoder()
    with contextlib.closing(spool), contextlib.closing(loader):
        for start in range(0, len(data), 1000):  # lines come in pieces
            for event in decoder.feed(data[start : start + 1000]):
                assert not isinstance(event, SchemaEvent) or event.stream
                loader.process_event(event)
        for event in decoder.close():
            loader.process_event(event)
        loader.finish(whole=True)


def _take_state(state: bytes) -> None:
    json.loads(state, parse_int=str)  # an emitted state is valid JSON with any numbers
