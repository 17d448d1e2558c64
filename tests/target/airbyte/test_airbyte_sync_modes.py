"""Configured catalogs and Airbyte messages in the loader: modes, completion, generations."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st

from tap_core.events import Checkpoint, Rows, StreamId, StreamStatus
from tap_core.exceptions import CatalogFileError, TruncatedInputLine
from tap_core.protocols.airbyte.catalog import parse_configured_catalog
from tap_core.protocols.airbyte.reader import AirbyteReader
from target_spark.airbyte.configured_catalog import build_options, parse_catalog
from target_spark.airbyte.state_format import PerStreamStateFormat
from target_spark.config.options import WriteMode
from target_spark.errors import IncompleteError
from target_spark.loader.commit_request import CommitRequest, CommitResult
from target_spark.loader.loader import Loader
from target_spark.loader.report import Report
from target_spark.storage.spool import SpoolFolder
from target_spark.target import TargetSpark
from tests.target.loader.test_state_order import BrokenTableError, MemoryTables, StubEngine

ID = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "at": {"type": "string"},
        "many": {"type": ["array", "null"]},
    },
}


def stream(name: str, mode: str | None = None, **fields: Any) -> dict[str, Any]:
    description = {"name": name, "json_schema": ID, "supported_sync_modes": ["full_refresh"]}
    description |= {
        key: fields.pop(key)
        for key in ("namespace", "source_defined_primary_key", "default_cursor_field")
        if key in fields
    }
    entry = {"stream": description, "sync_mode": "full_refresh", "destination_sync_mode": mode}
    return {**entry, **fields}


def record(name: str, number: int = 1, **fields: Any) -> dict[str, Any]:
    body = {"stream": name, "data": {"id": number}, "emitted_at": 1, **fields}
    return {"type": "RECORD", "record": body}


def state(name: str, value: int = 1) -> dict[str, Any]:
    of_stream = {"stream_descriptor": {"name": name}, "stream_state": value}
    return {"type": "STATE", "state": {"type": "STREAM", "stream": of_stream}}


def status(name: str, word: str = "COMPLETE") -> dict[str, Any]:
    fields = {"stream_descriptor": {"name": name}, "status": word}
    trace = {"type": "STREAM_STATUS", "emitted_at": 1, "stream_status": fields}
    return {"type": "TRACE", "trace": trace}


ERROR = {"type": "TRACE", "trace": {"type": "ERROR", "error": {"message": "gone"}}}


@dataclass
class Tables(MemoryTables):
    """Tables in memory that record their commit requests; ``set_aside`` rows are quarantined."""

    requests: list[CommitRequest] = field(default_factory=list)
    set_aside: int = 0

    def write(self, request: CommitRequest) -> CommitResult:
        outcome = super().write(request)
        self.requests.append(request)
        return CommitResult(outcome.written, self.set_aside, outcome.carried, {})


@dataclass
class Loaded:
    """The result of a load."""

    tables: Tables
    states: list[dict[str, Any]] = field(default_factory=list)
    error: BaseException | None = None
    notes: dict[str, list[str]] = field(default_factory=dict)

    @property
    def values(self) -> list[Any]:
        """The emitted states, as pairs of stream and value."""
        states = [emitted["stream"] for emitted in self.states]
        return [(entry["stream_descriptor"]["name"], entry["stream_state"]) for entry in states]

    @property
    def swapped(self) -> list[str]:
        return [str(w.stream) for w in self.tables.requests if w.mode is WriteMode.OVERWRITE]


def load(
    folder: Path,
    streams: list[dict[str, Any]],
    messages: list[Any],
    tables: Tables | None = None,
    **config: Any,
) -> Loaded:
    """Load messages; a str among them is included unchanged."""
    config = {"path": str(folder), "format": "delta", **config}
    catalog = parse_configured_catalog(json.dumps({"streams": streams}), "c.json")
    parsed = parse_catalog(catalog, config["format"])
    loaded, report, spool = Loaded(tables or Tables()), Report(), SpoolFolder(folder)
    loader = Loader(
        build_options(config, parsed),
        StubEngine(),
        spool,
        lambda: loaded.tables,
        report,
        lambda line: loaded.states.append(json.loads(line)["state"]),
        state_format=PerStreamStateFormat(),
    )
    decoder = AirbyteReader(parsed.expected)
    texts = (
        message if isinstance(message, str) else json.dumps(message) + "\n" for message in messages
    )
    complete = True
    try:
        try:
            for event in chain(decoder.feed("".join(texts).encode()), decoder.close()):
                loader.process_event(event)
        except TruncatedInputLine as error:
            loaded.error, complete = error, False
        loader.finish(whole=complete)
    except (IncompleteError, BrokenTableError) as error:
        loaded.error = loaded.error or error
    finally:
        loader.close()
        spool.close()
    loaded.notes = {name: stream.notes for name, stream in report.streams().items()}
    return loaded


# Modes


def test_each_destination_sync_mode_selects_a_write_mode(tmp_path: Path) -> None:
    """Rules D1 to D3 and CF1; a catalog without modes means append."""
    streams = [
        stream("a", "append", primary_key=[["id"]]),
        stream("o", "overwrite", primary_key=[["id"]]),
        stream("d", "append_dedup", primary_key=[["id"]], cursor_field=["at"]),
        stream(
            "d2", "append_dedup", source_defined_primary_key=[["id"]], default_cursor_field=["at"]
        ),
        {"name": "plain", "schema": ID},
    ]
    names = ("a", "o", "d", "d2", "plain")
    result = load(tmp_path, streams, [record(name) for name in names])
    assert result.error is None
    modes = {
        str(request.stream): (request.mode, request.table_schema.keys, request.cursor)
        for request in result.tables.requests
    }
    dedup = (WriteMode.UPSERT, ("id",), "at")
    assert modes == {
        "a": (WriteMode.APPEND, (), None),
        "o": (WriteMode.OVERWRITE, (), None),
        "d": dedup,
        "d2": dedup,
        "plain": (WriteMode.APPEND, (), None),
    }


def test_nested_keys_and_cursors_get_unused_names() -> None:
    inner = {"type": "object", "properties": {"b": {"type": "integer"}}}
    schema = {"properties": {"a": inner, "a.b": {"type": "integer"}}}
    entry = stream("s", "append_dedup", primary_key=[["a", "b"], ["a.b"]], cursor_field=["a", "b"])
    entry["stream"]["json_schema"] = schema
    (result,) = parse_catalog(
        parse_configured_catalog(json.dumps({"streams": [entry]}), "c"), "delta"
    ).expected
    assert result.schema_event.keys == ("a.b_", "a.b")
    assert result.schema_event.cursor == "a.b_"
    assert result.schema_event.nested == {"a.b_": ("a", "b")}


@pytest.mark.parametrize(
    "entry,table_format,message",
    [
        (stream("s", "append_dedup"), "delta", "'s': append_dedup needs a primary key"),
        (stream("s", "append_dedup", primary_key=[]), "delta", "needs a primary key"),
        (
            stream("s", "append_dedup", primary_key=[["nope"]]),
            "delta",
            "does not declare the primary key nope",
        ),
        (
            stream("s", "append_dedup", primary_key=[["many"]]),
            "delta",
            "many is a list or an object and cannot be a primary key",
        ),
        (stream("s", "soft_delete"), "delta", "'soft_delete' is not supported. Set it to one of"),
        (
            stream("s", "append_dedup", primary_key=[["id"]]),
            "parquet",
            "which parquet cannot. Set the destination's format to delta or iceberg",
        ),
    ],
)
def test_unsupported_catalog_is_rejected_before_input_is_read(
    entry: dict[str, Any], table_format: str, message: str
) -> None:
    """Rule D14: a mode must be supported, and dedup needs a key."""
    catalog = parse_configured_catalog(json.dumps({"streams": [stream("fine"), entry]}), "c.json")
    with pytest.raises(CatalogFileError, match=message) as caught:
        parse_catalog(catalog, table_format)
    assert "c.json" in str(caught.value)


@pytest.mark.parametrize("mode", ["append", "append_dedup", "overwrite"])
@pytest.mark.parametrize("generation,least", [(3, 2), (1, 2), (None, 2)])
def test_minimum_generation_that_is_not_the_current_one_is_rejected(
    mode: str, generation: int | None, least: int
) -> None:
    """Airbyte's destinations reject it, too. Otherwise rows that it does not want would stay."""
    entry = stream("r", mode, generation_id=generation, minimum_generation_id=least)
    catalog = parse_configured_catalog(
        json.dumps({"streams": [entry | {"primary_key": [["id"]]}]}), "c.json"
    )
    with pytest.raises(CatalogFileError, match=r"'r': minimum_generation_id 2 is not supported"):
        parse_catalog(catalog, "delta")


def test_duplicate_stream_in_the_catalog_is_rejected() -> None:
    catalog = parse_configured_catalog(
        json.dumps({"streams": [stream("s"), stream("s")]}), "c.json"
    )
    with pytest.raises(CatalogFileError, match="'s' occurs twice"):
        parse_catalog(catalog, "delta")


def test_stream_settings_apply_where_the_catalog_is_silent(tmp_path: Path) -> None:
    config = {"path": str(tmp_path), "write_mode": "append", "streams": {"s": {"table": "t"}}}
    text = json.dumps({"streams": [stream("s", "append_dedup", primary_key=[["id"]])]})
    options = build_options(config, parse_catalog(parse_configured_catalog(text, "c"), "delta"))
    assert options.table(StreamId("s")).name == "t"
    assert options.mode(StreamId("s"), keyed=True) is WriteMode.UPSERT
    assert options.mode(StreamId("other"), keyed=True) is WriteMode.APPEND


# Completion


def test_overwrite_is_committed_once_its_stream_is_complete(tmp_path: Path) -> None:
    """Rule D2, and T6 for an input that ends early: only complete streams are overwritten."""
    streams = [stream("o", "overwrite"), stream("p", "overwrite"), stream("a", "append")]
    messages = [record("o"), status("o"), record("p"), status("p", "RUNNING"), record("a")]
    result = load(tmp_path, streams, messages)
    assert result.swapped == ["o"]
    assert isinstance(result.error, IncompleteError)
    assert "The tables of p were not overwritten and are unchanged" in str(result.error)
    assert "STREAM_STATUS of COMPLETE" in str(result.error)
    assert {str(request.stream) for request in result.tables.requests} == {"o", "a"}


@pytest.mark.parametrize("messages", [[], [record("o")], [record("o"), state("o")], [state("o")]])
def test_without_statuses_the_end_of_input_completes_an_overwrite(
    tmp_path: Path, messages: list[Any]
) -> None:
    """A stream without records empties its table."""
    result = load(tmp_path, [stream("o", "overwrite")], messages)
    assert (result.error, result.swapped) == (None, ["o"])
    assert len(result.tables.safe()) == sum(message["type"] == "RECORD" for message in messages)
    assert len(result.states) == sum(message["type"] == "STATE" for message in messages)


@pytest.mark.parametrize("end", [ERROR, status("x", "STARTED"), '{"type":"RECORD","rec'])
def test_error_unfinished_status_or_truncated_line_keeps_the_old_table(
    tmp_path: Path, end: Any
) -> None:
    result = load(tmp_path, [stream("o", "overwrite")], [record("o"), state("o"), end])
    assert isinstance(result.error, IncompleteError | TruncatedInputLine)
    assert (result.swapped, result.states) == ([], [])


def test_overwrite_complete_before_a_truncated_line_is_committed(
    tmp_path: Path,
) -> None:
    messages = [record("o"), state("o"), status("o"), record("a"), state("a"), '{"type":"REC']
    result = load(tmp_path, [stream("o", "overwrite"), stream("a", "append")], messages)
    assert isinstance(result.error, TruncatedInputLine)
    assert (result.swapped, result.values) == (["o"], [("o", 1), ("a", 1)])


def test_complete_status_may_precede_the_rows(tmp_path: Path) -> None:
    messages = [status("o"), status("o", "STARTED"), record("o"), record("o", 2)]
    result = load(tmp_path, [stream("o", "overwrite")], messages)
    assert (result.error, result.swapped, len(result.tables.safe())) == (None, ["o"], 2)


def test_state_completes_no_stream_if_statuses_are_used(tmp_path: Path) -> None:
    """The value of a state is opaque."""
    messages = [record("o"), status("a", "STARTED"), state("o")]
    result = load(tmp_path, [stream("o", "overwrite"), stream("a")], messages)
    assert isinstance(result.error, IncompleteError)


# Generations


def refresh(mode: str = "append", generation: int = 2, least: int | None = 2) -> dict[str, Any]:
    key = {"primary_key": [["id"]]} if mode == "append_dedup" else {}
    return stream("r", mode, generation_id=generation, minimum_generation_id=least, **key)


@pytest.mark.parametrize("mode", ["append", "append_dedup"])
@pytest.mark.parametrize("rows", [0, 2])
def test_older_generations_are_deleted_when_the_stream_is_complete(
    tmp_path: Path, mode: str, rows: int
) -> None:
    messages = [*(record("r", number) for number in range(rows)), state("r"), status("r")]
    result = load(tmp_path, [refresh(mode)], messages)
    assert [request.kept_version for request in result.tables.requests] == [None] * bool(rows) + [2]
    assert result.tables.requests[-1].hard_delete
    assert {batch.version for request in result.tables.requests for batch in request.batches} <= {2}
    assert result.values == [("r", 1)]


@pytest.mark.parametrize(
    "entry,messages",
    [
        (refresh(generation=2, least=0), [status("r")]),
        (refresh(generation=2, least=None), [status("r")]),
        (refresh(generation=0, least=0), [status("r")]),
        (refresh(), [status("r", "INCOMPLETE")]),
        (refresh(), [ERROR]),
        (refresh("overwrite"), [status("r")]),
    ],
)
def test_older_generations_are_kept_if_not_due_or_incomplete(
    tmp_path: Path, entry: dict[str, Any], messages: list[Any]
) -> None:
    result = load(tmp_path, [entry], [record("r"), *messages])
    assert result.tables.retired == {}


def test_format_without_deletes_reports_that_older_generations_stay(tmp_path: Path) -> None:
    result = load(tmp_path, [refresh()], [record("r"), status("r")], format="parquet")
    assert result.tables.retired == {}
    assert "rows of older generations stay" in " ".join(result.notes["r"])


# States


def test_pending_overwrite_holds_its_states_and_later_ones(
    tmp_path: Path,
) -> None:
    """Rule D5: states from before the rows of the overwrite are emitted without waiting."""
    streams = [stream("o", "overwrite"), stream("a", "append")]
    messages = [
        record("a"),
        state("a", 1),
        state("o", 1),
        record("a", 2),
        state("a", 2),
        status("o", "INCOMPLETE"),
    ]
    result = load(tmp_path, streams, messages)
    assert isinstance(result.error, IncompleteError)
    assert result.values == [("a", 1)]
    result = load(
        tmp_path / "2", streams, [*messages[:-1], record("o"), state("a", 3), status("o")]
    )
    assert result.error is None
    assert dict(result.values) == {"o": 1, "a": 3}


def test_states_report_counts_of_covered_and_rejected_rows(tmp_path: Path) -> None:
    streams = [stream("a"), stream("b")]
    messages = [record("a"), record("b"), record("a"), state("a"), record("a"), state("b")]
    result = load(tmp_path, streams, messages, Tables(set_aside=1))
    stats = [emitted["destinationStats"] for emitted in result.states]
    assert stats == [
        {"recordCount": 1, "rejectedRecordCount": 1},
        {"recordCount": 0, "rejectedRecordCount": 1},
    ]


def test_last_commit_stores_the_states_of_all_streams(tmp_path: Path) -> None:
    carried: list[str] = []

    class Keeping(Tables):
        def write(self, request: CommitRequest) -> CommitResult:
            outcome = super().write(request)
            carried.extend([outcome.carried.state.decode()] if outcome.carried else [])
            return outcome

        def commit_state(self, table: Any, covered: Any) -> None:
            carried.append(covered.state.decode())

    streams = [stream("a"), stream("b")]
    messages = [record("a"), state("a", 1), record("b"), state("b", 1), state("a", 2)]
    result = load(tmp_path, streams, messages, Keeping())
    assert result.values[-2:] == [("b", 1), ("a", 2)]
    last = [stored["stream"]["stream_state"] for stored in json.loads(carried[-1])]
    assert last == [1, 2]


PLANS = st.lists(
    st.tuples(st.sampled_from(["rows", "state", "all"]), st.sampled_from(["a", "b", "o"])),
    max_size=30,
)


@given(plan=PLANS, fails_at=st.none() | st.integers(0, 6), flush_rows=st.integers(1, 4))
@budget(max_examples=60, deadline=None)
def test_emitted_states_cover_committed_rows_only_if_commits_fail(
    tmp_path_factory: pytest.TempPathFactory,
    plan: list[tuple[str, str]],
    fails_at: int | None,
    flush_rows: int,
) -> None:
    """Rule D5, of every stream; after a failed commit, rule D16: no state is emitted."""
    messages: list[Any] = []
    rows_before: dict[int, int] = {}
    for number, (kind, name) in enumerate(plan):
        if kind == "rows":
            messages.append(record(name, number))
            continue
        global_state = {
            "type": "STATE",
            "state": {"type": "GLOBAL", "global": {"shared_state": number}},
        }
        messages.append(state(name, number) if kind == "state" else global_state)
        rows_before[number] = sum(message["type"] == "RECORD" for message in messages)
    streams = [stream("a"), stream("b"), stream("o", "overwrite")]
    tables = Tables(fails_at=fails_at)
    result = load(tmp_path_factory.mktemp("load"), streams, messages, tables, flush_rows=flush_rows)
    safe = sorted(tables.safe())
    rows = [3 + index for index, message in enumerate(messages) if message["type"] == "RECORD"]
    for message in result.states:
        number = (
            message["stream"]["stream_state"]
            if "stream" in message
            else message["global"]["shared_state"]
        )
        assert set(rows[: rows_before[number]]) <= set(safe)
    if result.error is None:
        last = {name: number for number, (kind, name) in enumerate(plan) if kind == "state"}
        assert dict(v for v in [(n, a) for n, a in _values(result)]) == last


def _values(result: Loaded) -> list[tuple[str, int]]:
    of_streams = [emitted["stream"] for emitted in result.states if "stream" in emitted]
    return [(entry["stream_descriptor"]["name"], entry["stream_state"]) for entry in of_streams]


# Stream maps


def test_renamed_stream_keeps_its_catalog_mode_meta_states_and_status(tmp_path: Path) -> None:
    """Rows keep their metadata; states and the COMPLETE status use the catalog's stream name."""
    maps = {"s": {"__alias__": "t", "id": "id", "__filter__": "id > 1"}}
    target = TargetSpark(config={"path": str(tmp_path), "stream_maps": maps})
    streams = {"streams": [stream("s", "overwrite"), stream("u", "overwrite")]}
    parsed = parse_catalog(parse_configured_catalog(json.dumps(streams), "c"), "delta")
    options = build_options(target.config, parsed)
    meta = {"changes": []}
    messages = [record("s"), record("s", 2, meta=meta), record("s", 3), state("s"), state("u")]
    decoder = AirbyteReader(parsed.expected)
    events = chain(decoder.feed("\n".join(map(json.dumps, messages)).encode()), decoder.close())
    result = list(target.make_event_mapper(parsed.copy_options)(events))
    old, new, other = StreamId("s"), StreamId("t"), StreamId("u")
    rows = [event for event in result if isinstance(event, Rows)]
    assert [(event.stream, event.rows, event.meta) for event in rows] == [
        (new, [b'{"id":2}', b'{"id":3}'], [json.dumps(meta).encode(), None])
    ]
    assert [event.scope for event in result if isinstance(event, Checkpoint)] == [new, other]
    assert [event.stream for event in result if isinstance(event, StreamStatus)] == [new, other]
    assert {options.mode(stream_id, keyed=False) for stream_id in (old, new, other)} == {
        WriteMode.OVERWRITE
    }
