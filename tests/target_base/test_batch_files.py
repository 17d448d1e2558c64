"""BATCH messages: a target loads rows of files as if they were RECORD messages."""

from __future__ import annotations

import gzip
import io
import json
import logging
from datetime import datetime, timezone

import pytest

from tap_core import BatchSink, RecordSink, Target
from tap_core.exceptions import (
    BatchFileError,
    ConfigurationError,
    InvalidInputLine,
    InvalidRecord,
    MissingKeyPropertiesError,
)
from tests.target_base.messages import ID, NAME, batch, record, schema, state

ROWS = [{"id": n, "name": f"n{n}"} for n in range(5)]


class Sink(BatchSink):
    def process_batch(self, context):
        self.target_notes.append((self.stream_name, list(context["records"])))

    def __init__(self, target, *args, **kwargs):
        super().__init__(target, *args, **kwargs)
        self.target_notes = target.notes


class Loader(Target):
    name = "target-notes"
    default_sink_class = Sink

    def __init__(self, **kwargs):
        self.notes = []
        super().__init__(**kwargs)

    def _write_state_message(self, state):
        self.notes.append(("state", state))


def run_target(*lines, sink=Sink, target=Loader, **config):
    """Run a target on lines; return its notes of batches and states."""
    loaded_target = type("Own", (target,), {"default_sink_class": sink})(config=config)
    loaded_target.listen(io.StringIO("".join(lines)))
    return loaded_target.notes


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "rows.json.gz"
    file.write_bytes(gzip.compress("".join(f"{json.dumps(row)}\n" for row in ROWS).encode()))
    return str(file)


def gz(path, stream="a"):
    return batch(stream, path, format="jsonl", compression="gzip")


def test_rows_of_batch_files_are_drained_before_later_states(path):
    lines = [schema(), record(id=9), state(1), gz(path), state(2)]
    assert run_target(*lines, batch_size_rows=2) == [
        ("a", [{"id": 9}]),
        ("state", 1),
        ("a", ROWS[:2]),
        ("a", ROWS[2:4]),
        ("a", ROWS[4:]),
        ("state", 2),
    ]


def test_batches_of_file_rows_respect_the_sinks_limits(path):
    gzipped = run_target(schema(), batch("a", path, path, format="jsonl", compression="gzip"))
    assert [len(rows) for _, rows in gzipped] == [5, 5]

    class Small(Sink):
        MAX_BYTES = 40

    assert [len(rows) for _, rows in run_target(schema(), gz(path), sink=Small)] == [2, 2, 1]


def test_rows_of_batch_files_are_mapped_validated_and_parsed(tmp_path):
    path = tmp_path / "rows"
    path.write_text('{"id":1,"at":"2024-01-01T00:00:00Z","on":1}\n{"id":2}\n{"id":3}\n')
    date_time = {"type": ["string", "null"], "format": "date-time"}
    schema_message = schema(id=ID, at=date_time, on={"type": "boolean"})
    lines = [schema_message, batch("a", str(path), format="jsonl")]
    maps = {"a": {"__filter__": "id < 3", "twice": "int(id * 2)", "__alias__": "b"}}
    assert run_target(*lines, stream_maps=maps) == [
        (
            "b",
            [
                {"id": 1, "at": datetime(2024, 1, 1, tzinfo=timezone.utc), "on": True, "twice": 2},
                {"id": 2, "twice": 4},
            ],
        )
    ]
    path.write_text('{"id":1}\n{"id":"x"}\n')
    with pytest.raises(InvalidRecord, match="'x' is not of type 'integer'"):
        run_target(*lines)
    path.write_text('{"at":null}\n')
    with pytest.raises(MissingKeyPropertiesError):
        run_target(*lines)


def test_rows_of_batch_files_get_metadata_columns(path):
    message = json.loads(gz(path))
    lines = [schema(), json.dumps({**message, "version": 7})]
    [(_, rows)] = run_target(*lines, add_record_metadata=True)
    assert {row["_sdc_table_version"] for row in rows} == {7}
    assert all(row["_sdc_batched_at"] and row["_sdc_extracted_at"] is None for row in rows)


def test_record_sink_gets_rows_of_batch_files(path):
    received = []

    class Each(RecordSink):
        def process_record(self, record, context):
            received.append(record)

    run_target(schema(), gz(path), sink=Each)
    assert received == ROWS


def test_one_batch_message_can_be_mapped_to_several_sinks(path):
    maps = {"b": {"__source__": "a", "id": "id", "__else__": None}}
    notes = run_target(schema(), gz(path), state(1), stream_maps=maps)
    assert sorted(notes[:2], key=str) == [
        ("a", ROWS),
        ("b", [{"id": row["id"]} for row in ROWS]),
    ]
    assert notes[2:] == [("state", 1)]


def test_overridden_record_hook_gets_rows_of_batch_files(path):
    received = []

    class Hooked(Loader):
        def _process_record_message(self, message_dict):
            received.append(message_dict)
            super()._process_record_message(message_dict)

    notes = run_target(schema(), json.dumps({**json.loads(gz(path)), "version": 7}), target=Hooked)
    assert notes == [("a", ROWS)]
    assert received[0] == {"type": "RECORD", "stream": "a", "record": ROWS[0], "version": 7}


# Sinks that process files


def test_overridden_process_batch_files_gets_the_file_paths(path):
    class Own(Sink):
        def process_batch_files(self, encoding, files):
            self.target_notes.append((encoding.format, encoding.compression, files))

    lines = [schema(), record(id=9), gz(path), state(1)]
    assert run_target(*lines, sink=Own) == [
        ("a", [{"id": 9}]),
        ("jsonl", "gzip", [path]),
        ("state", 1),
    ]


@pytest.mark.parametrize("sink_kind", ["asks", "calls"])
def test_sink_can_get_each_batch_file_as_one_batch(path, sink_kind):
    class Whole(Sink):
        whole_batch_files = True
        max_size = 2

    class Calls(Sink):
        max_size = 2

        def process_batch_files(self, encoding, files):
            super().process_batch_files(encoding, files)

    sink = {"asks": Whole, "calls": Calls}[sink_kind]
    lines = [schema(), batch("a", path, path, format="jsonl", compression="gzip"), state(1)]
    assert run_target(*lines, sink=sink) == [("a", ROWS), ("a", ROWS), ("state", 1)]
    [(_, rows), *_] = run_target(*lines, sink=sink, add_record_metadata=True)
    assert rows[0].keys() > {"id", "name", "_sdc_received_at"}


def test_rows_of_whole_batch_files_are_validated(tmp_path):
    path = tmp_path / "rows"
    path.write_text('{"id":"x","_sdc_sequence":1}\n')

    class Whole(Sink):
        whole_batch_files = True
        fail_on_record_validation_exception = False

        def preprocess_record(self, record, context):
            return {**record, "seen": True}

    lines = [schema(), batch("a", str(path), format="jsonl")]
    assert run_target(*lines, sink=Whole) == [("a", [{"id": "x", "seen": True}])]


# Errors


@pytest.mark.parametrize("fault", ["missing", "truncated", "other"])
def test_unreadable_batch_file_raises_and_later_states_are_not_written(path, fault, tmp_path):
    if fault == "truncated":
        data = gzip.compress(b'{"id":1}\n' * 5_000)
        (tmp_path / "bad").write_bytes(data[:-20])
    elif fault == "other":
        (tmp_path / "bad").write_bytes(b'{"id":1}\n')
    bad = str(tmp_path / "bad")
    loaded_target = Loader(config={})
    lines = [schema(), record(id=9), state(1), gz(path), state(2), gz(bad), state(3)]
    with pytest.raises(BatchFileError, match=f"Stream 'a': batch file {bad} cannot be read"):
        loaded_target.listen(io.StringIO("".join(lines)))
    assert [note for note in loaded_target.notes if note[0] == "state"] == [
        ("state", 1),
        ("state", 2),
    ]


def test_batch_message_with_too_many_files_is_rejected_before_reading(path):
    """SEC13: a target on the SDK refuses a manifest of very many files."""
    loaded_target = Loader(config={"batch_max_files": 3})
    gzipped = {"format": "jsonl", "compression": "gzip"}
    lines = [
        schema(),
        batch("a", *[path] * 3, **gzipped),
        state(1),
        batch("a", *[path] * 4, **gzipped),
    ]
    with pytest.raises(BatchFileError, match=r"Stream 'a': .* names 4 files, more than 3;"):
        loaded_target.listen(io.StringIO("".join(lines)))
    assert loaded_target.notes == [*[("a", ROWS)] * 3, ("state", 1)]
    with pytest.raises(BatchFileError, match=r"Stream 'a': .* in 1,048,580 bytes, more than 4,096"):
        Loader(config={"batch_max_files": 3}).listen(
            io.StringIO(schema() + batch("a", "x" * (1 << 20), **gzipped))
        )


def test_batch_message_with_too_many_files_from_a_custom_reader_is_rejected(path):
    class Reader:
        def process_lines(self, file_input, callbacks):
            for text in file_input:
                message = json.loads(text)
                callbacks[message["type"]](message)

    loaded_target = Loader(config={"batch_max_files": 3}, message_reader=Reader())
    gzipped = {"format": "jsonl", "compression": "gzip"}
    with pytest.raises(BatchFileError, match=r"Stream 'a': .* names 4 files, more than 3;"):
        loaded_target.listen(
            [schema(), batch("a", *[path] * 3, **gzipped), batch("a", *[path] * 4, **gzipped)]
        )
    assert loaded_target.notes == [("a", ROWS)] * 3


@pytest.mark.parametrize(
    "message, error",
    [
        ({"stream": "a", "encoding": {"compression": "gzip"}, "manifest": []}, ConfigurationError),
        ({"stream": "a", "encoding": {"format": "csv"}, "manifest": ["/x"]}, NotImplementedError),
    ],
)
def test_unknown_batch_encoding_is_rejected(message, error):
    with pytest.raises(error):
        run_target(schema(), json.dumps({"type": "BATCH", **message}))


def test_batch_message_without_a_manifest_is_rejected():
    with pytest.raises(InvalidInputLine, match="missing required manifest"):
        Loader(config={})._process_batch_message({"stream": "a", "encoding": {"format": "jsonl"}})


def test_sigterm_stops_reading_a_batch_file(path):
    class Stopping(Sink):
        max_size = 2

        def process_batch(self, context):
            super().process_batch(context)
            loaded_target._handle_termination(15, None)

    loaded_target = type("Own", (Loader,), {"default_sink_class": Stopping})(config={})
    assert loaded_target.listen(io.StringIO("".join([schema(), gz(path), state(1)]))) == 0
    assert loaded_target.notes == [("a", ROWS[:2])]


def test_batch_files_load_with_an_overridden_schema_hook(path, caplog):
    class OwnSchemas(Loader):
        def _process_schema_message(self, message_dict):
            custom_target = {"properties": {"id": ID, "name": NAME}}
            self.get_sink("a", schema=custom_target, key_properties=["id"])

    with caplog.at_level(logging.WARNING):
        assert run_target(schema(), gz(path), target=OwnSchemas) == [("a", ROWS)]
