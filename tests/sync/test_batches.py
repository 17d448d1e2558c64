"""BATCH messages of a tap: the rows of RECORD messages in files, and no state ahead of them."""

from __future__ import annotations

import copy
import json
import logging
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tap_core.batch import BaseBatcher
from tap_core.batch.encodings import BaseBatchFileEncoding, BatchConfig
from tap_core.batch.parquet import ParquetEncoder
from tap_core.exceptions import BatchFileError, ConfigurationError
from tap_core.protocols.singer.writer import SingerWriter
from tap_core.singerlib.messages import SDKBatchMessage
from tap_core.sync.plan import get_plan
from tests.batch.files import ENCODINGS, batch_config, numbers, read_batch_rows, rows_named
from tests.sync.syncing import (
    DATETIME,
    INTEGER,
    STRING,
    Output,
    make,
    parse_messages,
    schema,
    select_messages,
    stream,
    sync,
    sync_until_error,
    with_hook,
)

ROWS = [{"id": n, "at": f"2024-01-01T00:00:{n:02}Z", "n": n % 3} for n in range(8)]
SORTED = {
    "schema": schema(id=INTEGER, at=DATETIME, n=INTEGER),
    "primary_keys": ("id",),
    "replication_key": "at",
    "is_sorted": True,
}


def sorted_stream(name="a", rows=ROWS, **members):
    return stream(name, rows, **{**SORTED, **members})


def ids(rows):
    return [row["id"] for row in rows]


def summarize(output):
    """Return the types of the messages; for BATCH messages the ids of their rows."""
    return [
        ids(read_batch_rows(message)) if message["type"] == "BATCH" else message["type"]
        for message in output.messages
    ]


def bookmark(state, name="a"):
    entry = state["bookmarks"][name]
    return entry.get("progress_markers", entry).get("replication_key_value")


def check_states(output, name="a"):
    """Check that the bookmark of each state is the last row of the files before it."""
    last = None
    for message in output.messages:
        if message["type"] == "BATCH" and message["stream"] == name:
            last = read_batch_rows(message)[-1]["at"]
        elif message["type"] == "STATE" and name in message["value"]["bookmarks"]:
            assert bookmark(message["value"], name) == last


# Rows and states


@pytest.mark.parametrize("form, compression", ENCODINGS)
def test_each_batch_is_one_file_followed_by_a_state(tmp_path, form, compression):
    output = sync(sorted_stream(), config=batch_config(tmp_path, form, compression))
    assert summarize(output) == [
        "SCHEMA", [0, 1, 2], "STATE", [3, 4, 5], "STATE", [6, 7], "STATE",
    ]  # fmt: skip
    check_states(output)
    known = {"format": form, **({"compression": compression} if compression else {})}
    for number, message in enumerate(output.select("BATCH"), 1):
        assert list(message) == ["type", "stream", "encoding", "manifest"]
        assert message["encoding"] == known
        [path] = message["manifest"]
        assert path.startswith(f"{tmp_path.as_uri()}/p-tap-test--a-")
        assert f"-{number}." in path
    assert rows_named(output.messages) == ROWS


def test_last_state_equals_that_of_record_messages(tmp_path):
    plain = sync(sorted_stream())
    output = sync(sorted_stream(), config=batch_config(tmp_path))
    assert output.states[-1] == plain.states[-1]
    resumed = sync(
        sorted_stream(rows=lambda self, context: ROWS[-1:]),
        config=batch_config(tmp_path),
        state=output.states[-1],
    )
    assert rows_named(resumed.messages) == ROWS[-1:]


def test_batch_files_are_written_to_an_fsspec_url(tmp_path):
    output = sync(sorted_stream(), config=batch_config(f"memory://{tmp_path.name}"))
    assert output.select("BATCH")[0]["manifest"][0].startswith(f"memory://{tmp_path.name}/p-tap")
    assert rows_named(output.messages) == ROWS


def test_batch_files_contain_the_rows_of_record_messages(tmp_path):
    declared_schema = schema(id=INTEGER, at=DATETIME, secret=STRING, price={"type": "number"}, on={
        "type": ["boolean", "null"]
    }, deep={"type": "object", "properties": {"a": INTEGER, "b": INTEGER}})  # fmt: skip
    rows = [
        {"id": 1, "at": "2024", "secret": "x", "price": Decimal("1.10"), "on": 1, "more": 2},
        {"id": 2, "secret": "y", "price": 1e300, "deep": {"a": 1, "b": 2, "c": 3}},
    ]

    def post_process(self, row, context=None):
        return {**row, "id": row["id"] * 10}

    kind = stream("a", rows, schema=declared_schema, post_process=post_process)
    catalog = make(kind).catalog_dict
    for entry in catalog["streams"][0]["metadata"]:
        if entry["breadcrumb"] in (
            ["properties", "secret"],
            ["properties", "deep", "properties", "b"],
        ):
            entry["metadata"]["selected"] = False
    maps = {
        "stream_maps": {"a": {"twice": "id * 2"}},
        "flattening_enabled": True,
        "flattening_max_depth": 1,
    }
    for config in ({}, maps):
        lines = sync(kind, config=config, catalog=catalog)
        files = sync(kind, config={**config, **batch_config(tmp_path)}, catalog=catalog)
        assert rows_named(files.messages) == lines.records()
        assert files.select("SCHEMA") == lines.select("SCHEMA")
        assert "secret" not in json.dumps(numbers(rows_named(files.messages)), default=str)
        tables = sync(kind, config={**config, **batch_config(tmp_path, "parquet")}, catalog=catalog)
        assert numbers(rows_named(tables.messages)) == [
            {name: row.get(name) for name in files.select("SCHEMA")[0]["schema"]["properties"]}
            if not row.get("deep")
            else {**dict.fromkeys(files.select("SCHEMA")[0]["schema"]["properties"]), **row}
            for row in numbers(lines.records())
        ]


def test_stream_mapped_to_several_names_has_files_per_name(tmp_path):
    maps = {
        "a": {"__filter__": "n > 0"},
        "b": {"__source__": "a", "id": "id", "__else__": None, "__filter__": "n == 0"},
    }
    for kind in (sorted_stream(), with_hook(sorted_stream())):
        lines = sync(kind, config={"stream_maps": maps})
        files = sync(kind, config={"stream_maps": maps, **batch_config(tmp_path, size=2)})
        for name in ("a", "b"):
            assert rows_named(files.messages, name) == lines.records(name)
            sizes = [len(read_batch_rows(message)) for message in files.select("BATCH", name)]
            assert sum(sizes) == len(lines.records(name))
            assert max(sizes) <= 2
        assert files.states[-1] == lines.states[-1]


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(0, 2300),
    size=st.sampled_from([1, 2, 7, 999, 1000, 1001, 5000]),
    on_path=st.sampled_from([lambda kind: kind, with_hook]),
    frequency=st.sampled_from([1, 10, 10_000]),
)
def test_no_row_is_lost_and_no_state_is_ahead_of_the_files(
    tmp_path_factory, count, size, on_path, frequency
):
    size = max(size, count // 40)
    folder = tmp_path_factory.mktemp("batches")
    rows = [
        {"id": n, "at": f"2024-01-01T{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}Z"}
        for n in range(count)
    ]
    kind = on_path(sorted_stream(rows=rows, STATE_MSG_FREQUENCY=frequency))
    output = sync(kind, config=batch_config(folder, "jsonl", "none", size))
    assert rows_named(output.messages) == rows
    sizes = [len(read_batch_rows(message)) for message in output.select("BATCH")]
    assert all(length == size for length in sizes[:-1])
    assert not output.select("RECORD")
    check_states(output)


def test_rows_of_an_overridden_record_hook_are_written_to_files(tmp_path):
    def generate(self, record):
        for message in super(subclass, self)._generate_record_messages(record):
            message.record["by"] = "hand"
            yield message

    subclass = type("A", (sorted_stream(),), {"_generate_record_messages": generate})
    output = sync(subclass, config=batch_config(tmp_path))
    assert {row["by"] for row in rows_named(output.messages)} == {"hand"}
    assert summarize(output)[1:3] == [[0, 1, 2], "STATE"]


def test_dict_yielded_repeatedly_is_copied_into_the_files(tmp_path):
    def rows(self, context):
        row = {"deep": [0]}
        for n in range(5):
            row["id"] = row["deep"][0] = n
            yield row

    kind = stream("a", rows, schema=schema(id=INTEGER, deep={"type": "array", "items": INTEGER}))
    for form, compression in ENCODINGS:
        output = sync(kind, config=batch_config(tmp_path, form, compression, 4))
        assert rows_named(output.messages) == [{"id": n, "deep": [n]} for n in range(5)]


# Versions, partitions, children


def test_batch_messages_have_the_version_of_the_table(tmp_path):
    kind = stream("a", ROWS, emit_activate_version_messages=True)
    output = sync(kind, config=batch_config(tmp_path, size=5))
    version = output.select("ACTIVATE_VERSION")[0]["version"]
    assert [message["type"] for message in output.messages] == [
        "SCHEMA", "ACTIVATE_VERSION", "BATCH", "STATE", "BATCH", "ACTIVATE_VERSION",
    ]  # fmt: skip
    assert {message["version"] for message in output.select("BATCH")} == {version}


@pytest.mark.parametrize("on_path", [lambda kind: kind, with_hook])
def test_batch_file_may_contain_rows_of_several_partitions(tmp_path, on_path):
    def rows(self, context):
        yield from ({**row, "part": context["part"]} for row in ROWS[:2])

    kind = sorted_stream(
        rows=rows,
        partitions=[{"part": n} for n in range(4)],
        schema=schema(id=INTEGER, at=DATETIME, part=INTEGER),
        primary_keys=("id", "part"),
    )
    output = sync(on_path(kind), config=batch_config(tmp_path, size=3))
    assert [len(item) for item in summarize(output) if isinstance(item, list)] == [3, 3, 2]
    named = {}
    for message in output.messages:
        if message["type"] == "BATCH":
            for row in read_batch_rows(message):
                named[row["part"]] = row["at"]
        elif message["type"] == "STATE":
            for part in message["value"]["bookmarks"]["a"].get("partitions", ()):
                if "replication_key_value" in part:
                    assert part["replication_key_value"] == named[part["context"]["part"]]
    assert output.states[-1] == sync(on_path(kind)).states[-1]


def test_parallel_partitions_fill_one_batch_file(tmp_path):
    kind = sorted_stream(
        partitions=[{"n": n} for n in range(4)],
        max_parallel_partitions=2,
        STATE_MSG_FREQUENCY=8,
    )
    output = sync(kind, config=batch_config(tmp_path, size=100))
    assert [message["type"] for message in output.messages] == ["SCHEMA", "BATCH", "STATE"]


def test_parallel_partitions_share_batch_files(tmp_path):
    def rows(self, context):
        for row in ROWS:
            yield {**row, "part": context["part"]}

    kind = sorted_stream(
        rows=rows,
        partitions=[{"part": n} for n in range(20)],
        schema=schema(id=INTEGER, at=DATETIME, part=INTEGER),
        primary_keys=("id", "part"),
        max_parallel_partitions=4,
    )
    output = sync(kind, config=batch_config(tmp_path, size=7))
    rows = rows_named(output.messages)
    assert sorted((row["part"], row["id"]) for row in rows) == [
        (part, n) for part in range(20) for n in range(8)
    ]
    assert max(len(read_batch_rows(message)) for message in output.select("BATCH")) <= 7
    named = {}
    for message in output.messages:
        if message["type"] == "BATCH":
            for row in read_batch_rows(message):
                named[row["part"]] = row["at"]
        elif message["type"] == "STATE":
            for part in message["value"]["bookmarks"]["a"].get("partitions", ()):
                value = part.get("replication_key_value")
                assert value is None or value <= named[part["context"]["part"]]
    assert bookmark_of_partitions(output.states[-1]) == {ROWS[-1]["at"]}


def bookmark_of_partitions(state):
    return {part["replication_key_value"] for part in state["bookmarks"]["a"]["partitions"]}


def parent_and_child(parents=4, **members):
    parent = sorted_stream(
        "parent",
        [{"id": n, "at": f"2024-01-0{n + 1}T00:00:00Z"} for n in range(parents)],
        get_child_context=lambda self, record, context: {"parent": record["id"]},
    )

    def children(self, context):
        for n in range(3):
            yield {"id": n, "parent": context["parent"], "at": f"2024-01-01T00:00:0{n}Z"}

    child = sorted_stream(
        "child",
        children,
        parent_stream_type=parent,
        schema=schema(id=INTEGER, parent=INTEGER, at=DATETIME),
        **members,
    )
    return parent, child


@pytest.mark.parametrize("on_path", [lambda kind: kind, with_hook])
@pytest.mark.parametrize("size", [2, 5, 100])
def test_batch_files_of_a_child_span_its_contexts(tmp_path, on_path, size):
    parent, child = parent_and_child()
    child_class = on_path(child)
    lines = sync(parent, child_class)
    output = sync(parent, child_class, config=batch_config(tmp_path, size=size))
    assert rows_named(output.messages, "child") == lines.records("child")
    assert rows_named(output.messages, "parent") == lines.records("parent")
    assert output.states[-1] == lines.states[-1]
    assert len(output.select("SCHEMA", "child")) == 1
    check_states(output, "parent")
    full = sum(len(read_batch_rows(message)) == size for message in output.select("BATCH", "child"))
    assert full == 12 // size
    expected = {2: 6, 5: 3, 100: 1}
    assert len(output.select("BATCH", "child")) == expected[size]


def test_streams_mapped_to_one_name_share_their_batch_files(tmp_path):
    """The first parent record has no children, so a file is open when the child stream begins."""
    parent, child = parent_and_child()
    parent.schema = child.schema
    parent.generate_child_contexts = lambda self, record, context: (
        [{"parent": record["id"]}] if record["id"] else []
    )
    maps = {"stream_maps": {name: {"__alias__": "all"} for name in ("parent", "child")}}
    lines = sync(parent, child, config=maps)
    output = sync(parent, child, config={**batch_config(tmp_path, size=5), **maps})
    assert rows_named(output.messages, "all") == lines.records("all")
    assert output.records() == []
    assert output.states[-1] == lines.states[-1]
    before = output.messages[: output.messages.index(output.select("STATE")[0])]
    assert {"id": 0, "at": "2024-01-01T00:00:00Z"} in rows_named(before, "all")


def test_batch_config_can_apply_to_one_stream(tmp_path):
    class Own:
        def get_batch_config(self, config):
            settings = batch_config(tmp_path)["batch_config"]
            return super().get_batch_config({"batch_config": settings})

    parent, child = parent_and_child()
    child_class = type("Child", (Own, child), {})
    output = sync(parent, child_class)
    assert len(output.records("parent")) == 4
    assert not output.select("RECORD", "child")
    assert len(rows_named(output.messages, "child")) == 12
    last_values = {}
    for message in output.messages:
        if message["type"] == "BATCH":
            for row in read_batch_rows(message):
                last_values[row["parent"]] = row["at"]
        elif message["type"] == "STATE":
            for part in message["value"]["bookmarks"].get("child", {}).get("partitions", ()):
                if "replication_key_value" in part:
                    assert part["replication_key_value"] == last_values[part["context"]["parent"]]


def test_deselected_parent_has_no_batch_files(tmp_path):
    parent, child = parent_and_child()
    catalog = make(parent, child).catalog_dict
    for entry in catalog["streams"]:
        if entry["tap_stream_id"] == "parent":
            entry["metadata"][-1]["metadata"]["selected"] = False
            entry["selected"] = False
    output = sync(parent, child, config=batch_config(tmp_path), catalog=catalog)
    assert not output.select("BATCH", "parent")
    assert len(rows_named(output.messages, "child")) == 12


def test_changed_schema_starts_a_new_batch_file(tmp_path):
    def rows(self, context):
        yield ROWS[0]
        self._tap.run.write_schema(
            next(iter(self._sync_plan[1].schemas)).__class__(
                self._sync_plan[1].stream, schema(id=INTEGER), ("id",)
            )
        )
        yield ROWS[1]

    output = sync(sorted_stream(rows=rows), config=batch_config(tmp_path, "parquet"))
    assert [message["type"] for message in output.messages[:4]] == [
        "SCHEMA",
        "BATCH",
        "SCHEMA",
        "BATCH",
    ]


def test_batch_count_metric_is_logged(tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        sync(sorted_stream(), config=batch_config(tmp_path))
    points = [record.args[0] for record in caplog.records if "METRIC" in record.msg]
    counts = {point.metric.value: point.value for point in points if point.metric_type == "counter"}
    assert counts == {"record_count": 8, "batch_count": 3}


def test_record_limit_closes_the_batch_file(tmp_path):
    output = Output()
    tap = make(sorted_stream(), output=output, config=batch_config(tmp_path))
    tap.run_connection_test()
    assert rows_named(output.messages) == ROWS[:1]


# Failures


def test_source_error_leaves_complete_files_and_a_state(tmp_path):
    def rows(self, context):
        yield from ROWS[:5]
        raise OSError("gone")

    output, _ = sync_until_error(OSError, sorted_stream(rows=rows), config=batch_config(tmp_path))
    assert summarize(output) == ["SCHEMA", [0, 1, 2], "STATE", [3, 4], "STATE"]
    check_states(output)
    assert output.states[-1]["currently_syncing"] == "a"


def test_no_state_is_written_after_a_failed_batch_file(tmp_path):
    folder = tmp_path / "files"

    def rows(self, context):
        for row in ROWS:
            if row["id"] == 3:
                for path in folder.iterdir():
                    path.unlink()
                folder.rmdir()
                folder.touch()
            yield row

    kind = sorted_stream(rows=rows)
    output, error = sync_until_error(BatchFileError, kind, config=batch_config(folder, size=2))
    assert "files/p-tap-test--a-" in str(error)
    assert [message["type"] for message in output.messages] == ["SCHEMA", "BATCH", "STATE"]
    assert bookmark(output.states[-1]) == ROWS[1]["at"]


@pytest.mark.parametrize(
    "config, message",
    [
        ({"encoding": {"format": "jsonl"}}, "batch_config lacks 'storage'"),
        ({"encoding": {}, "storage": {"root": "x"}}, "batch_config lacks 'encoding'"),
    ],
)
def test_incomplete_batch_config_fails_the_sync(config, message):
    _, error = sync_until_error(
        ConfigurationError, sorted_stream(), config={"batch_config": config}
    )
    assert message in str(error)


def test_writer_without_batch_support_gets_rows(tmp_path):
    class Other(SingerWriter):
        takes_files = False

    output = Output()
    tap = make(sorted_stream(), config=batch_config(tmp_path))
    tap.protocol_writer = Other(output.append)
    tap.sync_all()
    assert output.records() == ROWS


# Batches of the author's get_batches


def own_files(tmp_path, **members):
    def get_batches(self, batch_config, context=None):
        for n in range(2):
            yield BaseBatchFileEncoding("parquet", "snappy"), [f"s3://b/{n}", f"s3://b/{n}x"]

    return sorted_stream(get_batches=get_batches, **members)


def test_files_of_custom_get_batches_are_listed_unchanged(tmp_path):
    output = sync(own_files(tmp_path), config=batch_config(tmp_path))
    assert [message["type"] for message in output.messages] == ["SCHEMA", "BATCH", "STATE", "BATCH"]
    assert output.select("BATCH") == [
        {
            "type": "BATCH",
            "stream": "a",
            "encoding": {"format": "parquet", "compression": "snappy"},
            "manifest": [f"s3://b/{n}", f"s3://b/{n}x"],
        }
        for n in range(2)
    ]


def test_custom_get_batches_supports_aliases_but_warns_about_other_maps(tmp_path, caplog):
    config = {**batch_config(tmp_path), "stream_maps": {"a": {"__alias__": "other"}}}
    kind = own_files(tmp_path, emit_activate_version_messages=True, replication_key=None)
    output = sync(kind, config=config)
    assert [message["stream"] for message in output.select("BATCH")] == ["other", "other"]
    assert len({message["version"] for message in output.select("BATCH")}) == 1
    assert "'a' makes its own batch files: stream maps" in caplog.text


def own_batcher(tmp_path, **members):
    """Return a stream whose get_batches writes two rows per file."""

    def get_batches(self, batch_config, context=None):
        rows = []
        for row in self._sync_records(context, write_messages=False):
            rows.append(dict(row))
            if len(rows) == 2:
                yield batch_config.encoding, [named(rows)]
                rows.clear()
        if rows:
            yield batch_config.encoding, [named(rows)]

    def named(rows):
        path = tmp_path / f"own-{rows[0]['id']}-{rows[0].get('parent')}.json"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return str(path)

    return sorted_stream(get_batches=get_batches, **members)


def test_state_after_custom_batches_covers_their_rows(tmp_path):
    config = batch_config(tmp_path, "jsonl", "none")
    output = sync(own_batcher(tmp_path), config=config)
    assert summarize(output) == [
        "SCHEMA", [0, 1], "STATE", [2, 3], "STATE", [4, 5], "STATE", [6, 7], "STATE", "STATE",
    ]  # fmt: skip
    check_states(output)


def test_no_state_is_written_while_get_batches_holds_rows(tmp_path):
    def fails(self, context):
        yield from ROWS[:3]
        raise OSError("gone")

    config = batch_config(tmp_path, "jsonl", "none")
    output, _ = sync_until_error(OSError, own_batcher(tmp_path, rows=fails), config=config)
    assert summarize(output) == ["SCHEMA", [0, 1], "STATE"]
    check_states(output)

    parent, child = parent_and_child()
    parent_class = own_batcher(tmp_path, name="parent", rows=[
        {"id": n, "at": f"2024-01-0{n + 1}T00:00:00Z"} for n in range(3)
    ], get_child_context=parent.get_child_context)  # fmt: skip
    child = type("Child", (child,), {"parent_stream_type": parent_class})
    output = sync(parent_class, child, config=config)
    check_states(output, "parent")
    assert ids(rows_named(output.messages, "parent")) == [0, 1, 2]
    assert len(rows_named(output.messages, "child")) == 9
    assert output.states[-1] == sync(parent_class, child).states[-1]


@pytest.mark.parametrize("method", ["_increment_stream_state", "_write_batch_message"])
def test_state_requested_by_another_thread_waits_for_the_batch(tmp_path, method):
    base = own_batcher(tmp_path)

    def hook(self, *args, **kwargs):
        if method == "_write_batch_message":
            self._tap.run.checkpoint(required=True)
        getattr(super(kind, self), method)(*args, **kwargs)
        if method == "_increment_stream_state":
            self._tap.run.outbox.checkpoint()

    kind = type("Asking", (base,), {method: hook})
    output = sync(kind, config=batch_config(tmp_path, "jsonl", "none"))
    assert ids(rows_named(output.messages)) == ids(ROWS)
    check_states(output)


def test_custom_get_batches_runs_in_one_thread(tmp_path):
    config = BatchConfig.from_dict(batch_config(tmp_path, "jsonl", "none")["batch_config"])
    kind = own_batcher(
        tmp_path, get_batch_config=lambda self, config_: config, max_parallel_partitions=2
    )
    tap = make(kind)
    assert get_plan(tap.streams["a"]).threads == 1


def test_rows_that_are_read_without_writing_do_not_delay_states(tmp_path):
    other = stream("b", ROWS)

    def rows(self, context):
        looked_up = self._tap.streams["b"]._sync_records(None, write_messages=False)
        yield from list(looked_up)

    output = sync(sorted_stream(rows=rows), other, config=batch_config(tmp_path))
    assert rows_named(output.messages, "a") == ROWS
    assert bookmark(output.states[0]) == ROWS[2]["at"]


class Csv(BaseBatcher):
    def get_batches(self, records):
        path = Path(self.batch_config.storage.root) / "rows.csv"
        path.write_text("".join(f"{','.join(map(str, row.values()))}\n" for row in records))
        yield [str(path)]


def test_third_party_batcher_gets_mapped_records(tmp_path, monkeypatch):
    monkeypatch.setattr("tap_core.batch.batchers._load_installed", lambda _name: Csv)

    def get_batch_config(self, config):
        settings = copy.deepcopy(batch_config(tmp_path)["batch_config"])
        settings["encoding"] = {"format": "csv"}
        return super(subclass, self).get_batch_config({"batch_config": settings})

    subclass = type("A", (sorted_stream(),), {"get_batch_config": get_batch_config})
    maps = {"a": {"n": "n * 10", "at": "'x'"}}
    output = sync(subclass, config={"stream_maps": maps})
    assert output.select("BATCH")[0]["encoding"] == {"format": "csv"}
    assert (tmp_path / "rows.csv").read_text().splitlines()[1] == "1,x,10"
    sync(subclass)
    assert (tmp_path / "rows.csv").read_text().splitlines()[1] == "1,2024-01-01T00:00:01Z,1"
    several = {"stream_maps": {"b": {"__source__": "a"}}}
    _, error = sync_until_error(ConfigurationError, subclass, config=several)
    assert "'a' is sent as a, b, but its own batcher" in str(error)


def test_get_batches_override_may_call_super(tmp_path):
    def get_batches(self, batch_config, context=None):
        for encoding, manifest in super(subclass, self).get_batches(batch_config, context):
            yield encoding, [*manifest]

    subclass = type("A", (sorted_stream(),), {"get_batches": get_batches})
    output = sync(subclass, config=batch_config(tmp_path))
    assert summarize(output)[1:4] == [[0, 1, 2], "STATE", [3, 4, 5]]
    assert rows_named(output.messages) == ROWS
    check_states(output)


def test_last_batch_file_is_announced_without_state_messages(tmp_path, monkeypatch):
    kind = sorted_stream(_write_state_message=lambda _self: None)
    config = batch_config(tmp_path, "parquet")
    output = sync(kind, config=config)
    assert rows_named(output.messages) == ROWS

    finish = ParquetEncoder.finish

    def fails_at_the_end(self):
        if len(self._bodies) < 3:
            raise OSError("full")
        finish(self)

    monkeypatch.setattr(ParquetEncoder, "finish", fails_at_the_end)
    output, error = sync_until_error(BatchFileError, kind, config=config)
    assert "full" in str(error)
    assert [message["type"] for message in output.messages] == ["SCHEMA", "BATCH", "BATCH"]


def test_batch_hooks_are_called_for_every_batch(tmp_path):
    calls = []

    def write(self, encoding, manifest):
        calls.append((encoding.format, len(manifest)))
        super(subclass, self)._write_batch_message(encoding, manifest)

    def generate(self, encoding, manifest):
        for message in super(subclass, self)._generate_batch_messages(encoding, manifest):
            yield SDKBatchMessage(f"{message.stream}_b", message.encoding, message.manifest)

    hooks = {"_write_batch_message": write, "_generate_batch_messages": generate}
    subclass = type("A", (sorted_stream(),), hooks)
    output = sync(subclass, config=batch_config(tmp_path))
    assert calls == [("jsonl", 1)] * 3
    assert rows_named(output.messages, "a_b") == ROWS
    check_names = {batch["stream"] for batch in output.select("BATCH")}
    assert check_names == {"a_b"}


def test_custom_message_writer_gets_batch_message_objects(tmp_path):
    class Writer:
        def __init__(self):
            self.messages = []

        def write_message(self, message):
            self.messages.append(message)

    writer = Writer()
    make(sorted_stream(), config=batch_config(tmp_path))
    tap = make(sorted_stream(), config=batch_config(tmp_path))
    tap.message_writer = writer
    tap.sync_all()
    batches = [batch for batch in writer.messages if isinstance(batch, SDKBatchMessage)]
    assert [row for batch in batches for row in read_batch_rows(batch.to_dict())] == ROWS
    assert all(isinstance(batch.encoding, BaseBatchFileEncoding) for batch in batches)


def test_overridden_write_message_gets_batch_messages(tmp_path):
    output, types = Output(), []
    tap = make(sorted_stream(), output=output, config=batch_config(tmp_path))
    kind = type(tap)

    def write_message(self, message):
        types.append(message.type)
        super(tap_class, self).write_message(message)

    tap_class = type("Own", (kind,), {"write_message": write_message})
    other_tap = tap_class(config=batch_config(tmp_path))
    other_tap.protocol_writer = SingerWriter(output.append)
    other_tap.sync_all()
    assert types.count("BATCH") == 3
    assert rows_named(output.messages) == ROWS
    assert select_messages(output.messages, "SCHEMA")


# Signals

SLOW = """
import time
from tap_core import Stream, Tap

class Slow(Stream):
    name = "slow"
    replication_key = "id"
    is_sorted = True
    schema = {"properties": {"id": {"type": "integer"}}}

    def get_records(self, context):
        for n in range(1_000_000):
            if n == 2_500:
                print("READY", file=__import__("sys").stderr, flush=True)
                time.sleep(60)
            yield {"id": n}

class SlowTap(Tap):
    name = "tap-slow"

    def discover_streams(self):
        return [Slow(self)]

SlowTap.cli()
"""


def test_terminated_tap_leaves_complete_files_and_a_state(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(batch_config(tmp_path / "files", size=1000)))
    tap = subprocess.Popen(
        [sys.executable, "-c", SLOW, "--config", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    try:
        while b"READY" not in tap.stderr.readline():
            assert tap.poll() is None
        tap.terminate()
        out, _ = tap.communicate(timeout=60)
    finally:
        tap.kill()
    assert tap.returncode == 0
    messages = parse_messages(out)
    assert [len(read_batch_rows(message)) for message in select_messages(messages, "BATCH")] == [
        1000,
        1000,
        500,
    ]
    assert [message["type"] for message in messages[-2:]] == ["BATCH", "STATE"]
    state = messages[-1]["value"]
    assert state["bookmarks"]["slow"]["replication_key_value"] == 2_499
    assert state["currently_syncing"] == "slow"
