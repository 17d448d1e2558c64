"""`Target` in this process: sinks, drains, states, limits and hooks."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest

from tap_core import BatchSink, RecordSink, Sink, Target
from tap_core.exceptions import (
    InvalidInputLine,
    MapperNotInitialized,
    MissingKeyPropertiesError,
    RecordsWithoutSchemaException,
)
from tap_core.sinks.open_files import _flush
from tests.target_base.messages import ID, NAME, activate, batch, record, schema, state


class Noting:
    """Sink mixin that records its calls in the target's notes."""

    stores_in_clean_up = False

    def __init__(self, target, **kwargs):
        super().__init__(target=target, **kwargs)
        self.notes = target.notes
        self.notes.append(("made", self.stream_name))

    def setup(self):
        super().setup()
        self.notes.append(("setup", self.stream_name))

    def activate_version(self, new_version):
        self.notes.append(("version", new_version))
        super().activate_version(new_version)

    def clean_up(self):
        super().clean_up()
        self.notes.append(("clean", self.stream_name))


class NotingSink(Noting, BatchSink):
    def process_batch(self, context):
        self.notes.append(("batch", self.stream_name, [r["id"] for r in context["records"]]))


class NotingRecordSink(Noting, RecordSink):
    def process_record(self, record, context):
        self.notes.append(("record", self.stream_name, record["id"]))


class NotingTarget(Target):
    name = "target-noting"
    default_sink_class = NotingSink

    def __init__(self, **kwargs):
        self.notes = []
        super().__init__(**kwargs)

    def _write_state_message(self, state):
        self.notes.append(("state", state))


def target(kind=NotingTarget, **config):
    return kind(config=config)


def run_target(*lines, kind=NotingTarget, **config):
    """Run a target on lines; return the recorded calls."""
    loaded_target = target(kind, **config)
    assert loaded_target.listen(io.StringIO("".join(lines))) == 0
    return loaded_target.notes


def make_target(sink_class, **members):
    return type("Made", (NotingTarget,), {"default_sink_class": sink_class, **members})


def rows(*numbers, stream="a"):
    return [record(stream, id=n, name="x") for n in numbers]


def without_setup(notes):
    return [note for note in notes if note[0] not in {"made", "setup", "clean"}]


# States


def test_state_is_written_after_the_drain_of_its_records():
    notes = run_target(
        schema(), *rows(1), state(1), *rows(2), state(2), *rows(3), batch_size_rows=2
    )
    assert without_setup(notes) == [
        ("batch", "a", [1, 2]),
        ("state", 1),
        ("state", 2),
        ("batch", "a", [3]),
    ]


def test_target_may_pass_arguments_to_its_sinks_in_create_sink():
    class NamedSink(NotingSink):
        def __init__(self, table, **kwargs):
            super().__init__(**kwargs)
            self.notes.append(("table", table))

    def create_sink(self, *, stream_name, schema, key_properties=None):
        return self.get_sink_class(stream_name)(
            table=f"t_{stream_name}",
            target=self,
            stream_name=stream_name,
            schema=schema,
            key_properties=key_properties,
        )

    notes = run_target(schema(), *rows(1), kind=make_target(NamedSink, create_sink=create_sink))
    assert notes[:3] == [("made", "a"), ("table", "t_a"), ("setup", "a")]


def test_state_waits_for_the_records_of_every_stream():
    lines = [schema(), schema("b"), *rows(1, stream="b"), state(1), *rows(1, 2), state(2)]
    assert without_setup(run_target(*lines, batch_size_rows=2)) == [
        ("batch", "a", [1, 2]),
        ("batch", "b", [1]),
        ("state", 2),
    ]


def test_record_sink_lets_each_state_be_written_immediately():
    notes = run_target(
        schema(), *rows(1), state(1), *rows(2), state(2), kind=make_target(NotingRecordSink)
    )
    assert without_setup(notes) == [
        ("record", "a", 1),
        ("state", 1),
        ("record", "a", 2),
        ("state", 2),
    ]


class FinishingSink(NotingSink):
    """Sink that may store its records in ``clean_up``."""

    stores_in_clean_up = None


LOAD = (schema(), *rows(1, 2), state(1), *rows(3), state(2))


def test_no_state_is_written_before_an_overridden_clean_up_of_the_sinks():
    notes = run_target(*LOAD, kind=make_target(FinishingSink), batch_size_rows=2)
    assert notes[2:] == [("batch", "a", [1, 2]), ("batch", "a", [3]), ("clean", "a"), ("state", 2)]


@pytest.mark.parametrize("is_bad_line", [True, False])
def test_no_state_is_written_if_the_run_ends_before_an_overridden_clean_up(is_bad_line):
    def clean_up(self):
        raise RuntimeError("not stored")

    loaded_target = target(make_target(type("Failing", (FinishingSink,), {"clean_up": clean_up})))
    lines = io.StringIO("".join(LOAD) + "[" * is_bad_line)
    with pytest.raises(InvalidInputLine if is_bad_line else RuntimeError):
        loaded_target.listen(lines)
    assert "state" not in {note[0] for note in loaded_target.notes}


def test_signal_cleans_up_a_sink_that_stores_records_then_before_the_state_is_written():
    loaded_target = target(make_target(FinishingSink), batch_size_rows=2)
    loaded_target.process_lines(io.StringIO("".join(LOAD)))
    loaded_target._signals.received.append(15)
    loaded_target._finish_after_signal()
    assert loaded_target.notes[2:] == [("batch", "a", [1, 2]), ("clean", "a"), ("state", 1)]


class StoringRecordSink(NotingRecordSink):
    """Sink that writes each record at once, and may store them in ``clean_up``."""

    stores_in_clean_up = None


def test_states_of_a_sink_that_overrides_clean_up_are_written_at_the_age_limit():
    """The sink buffers no records, so only the waiting state makes a drain due."""
    kind = make_target(StoringRecordSink, _MAX_RECORD_AGE_IN_MINUTES=0.0)
    notes = run_target(schema(), *rows(1), state(1), *rows(2), state(2), *rows(3), kind=kind)
    assert [note[1] for note in notes if note[0] == "state"] == [1, 2]
    assert notes.index(("state", 1)) < notes.index(("record", "a", 3))


def test_target_that_overrides_drain_all_decides_when_states_are_written():
    def drain_all(self, *, is_endofpipe=False):
        self._drain_all(list(self._sinks_active.values()), self.max_parallelism)
        self.notes.append(("stored", is_endofpipe))
        self._write_state_message(self._latest_state)
        self._reset_max_record_age()

    notes = run_target(*LOAD, kind=make_target(NotingSink, drain_all=drain_all), batch_size_rows=2)
    assert notes[2:] == [
        ("batch", "a", [1, 2]),
        ("batch", "a", [3]),
        ("stored", True),
        ("state", 2),
    ]


def test_states_are_written_after_an_overridden_process_endofpipe_has_stored_the_records():
    def process_endofpipe(self):
        self.notes.append(("stored",))
        NotingTarget.process_endofpipe(self)

    kind = make_target(NotingSink, process_endofpipe=process_endofpipe)
    notes = run_target(*LOAD, kind=kind, batch_size_rows=2)
    assert notes[2:] == [
        ("batch", "a", [1, 2]),
        ("stored",),
        ("batch", "a", [3]),
        ("clean", "a"),
        ("state", 2),
    ]
    failed = target(kind, batch_size_rows=2)
    with pytest.raises(InvalidInputLine):
        failed.listen(io.StringIO("".join([*LOAD, "no message\n"])))
    assert "state" not in {note[0] for note in failed.notes}


def test_overridden_hook_may_assign_the_latest_state():
    def process(self, message_dict):
        self._latest_state = {"merged": message_dict["value"]}

    notes = run_target(*LOAD, kind=make_target(NotingSink, _process_state_message=process))
    assert notes[-1] == ("state", {"merged": 2})


def test_sink_may_change_its_maximum_size_between_batches():
    def process_batch(self, context):
        NotingSink.process_batch(self, context)
        self.max_size = 1

    shrinking = type("Shrinking", (NotingSink,), {"max_size": 2, "process_batch": process_batch})
    notes = run_target(schema(), *rows(1, 2, 3, 4), kind=make_target(shrinking))
    assert without_setup(notes) == [
        ("batch", "a", ids_of_batch) for ids_of_batch in ([1, 2], [3], [4])
    ]


def test_equal_and_empty_states_are_not_written_again():
    assert run_target(state({"a": 1}), state({"a": 1}), state({}), state(None)) == [
        ("state", {"a": 1})
    ]


def test_state_is_written_byte_for_byte(capsysbinary):
    class Plain(Target):
        name = "target-plain"
        default_sink_class = NotingSink

    plain = Plain(config={})
    plain.listen(io.BytesIO(b'{"type":"STATE","value":{"b" : 0.10,"a":"\xc3\xa4"}}\n'))
    assert capsysbinary.readouterr().out == b'{"b" : 0.10,"a":"\xc3\xa4"}\n'
    assert plain._latest_state == {"b": Decimal("0.10"), "a": "ä"}
    plain._write_state_message({"n": Decimal("0.10")})
    assert capsysbinary.readouterr().out == b'{"n":0.10}\n'


def test_state_is_written_to_a_replaced_sys_stdout(monkeypatch):
    class Plain(Target):
        name = "target-plain"

    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    assert Plain(config={})._latest_state is None
    Plain(config={}).listen(io.StringIO(state(5)))
    assert out.getvalue() == "5\n"


def test_state_is_a_line_of_its_own_behind_one_that_was_cut_off(monkeypatch, tmp_path):
    class Plain(Target):
        name = "target-plain"

    path = tmp_path / "state.jsonl"
    path.write_text('1\n{"bookmarks": {"or')
    with path.open("a") as out:
        monkeypatch.setattr(sys, "stdout", out)
        Plain(config={}).listen(io.StringIO(state(5)))
    assert path.read_text() == '1\n{"bookmarks": {"or\n5\n'


def test_long_state_is_written_completely_to_a_non_blocking_pipe(monkeypatch):
    class Plain(Target):
        name = "target-plain"

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    long = "x" * 1_000_000
    with os.fdopen(reader, "rb") as pipe, ThreadPoolExecutor(1) as pool:
        with os.fdopen(writer, "w") as out:
            monkeypatch.setattr(sys, "stdout", out)
            loaded_target = pool.submit(pipe.read)
            Plain(config={}).listen(io.StringIO(state(long)))
        assert json.loads(loaded_target.result()) == long


def test_states_of_successful_drains_are_written_if_a_later_drain_fails():
    class Failing(NotingSink):
        def process_batch(self, context):
            if self.stream_name == "bad":
                raise RuntimeError("no room")
            super().process_batch(context)

    failing = target(make_target(Failing))
    lines = [schema(), schema("bad"), *rows(1), state(1), *rows(2, stream="bad"), state(2)]
    with pytest.raises(RuntimeError, match="no room"):
        failing.listen(io.StringIO("".join(lines)))
    assert without_setup(failing.notes) == [("batch", "a", [1]), ("state", 1)]


# Sinks and schemas


def test_replaced_sink_is_drained_after_the_setup_of_its_successor():
    assert run_target(schema(), *rows(1), schema("a", id=ID), *rows(2)) == [
        ("made", "a"),
        ("setup", "a"),
        ("made", "a"),
        ("setup", "a"),
        ("batch", "a", [1]),
        ("batch", "a", [2]),
        ("clean", "a"),
        ("clean", "a"),
    ]


def test_sink_that_truncates_its_file_in_setup_keeps_rows_of_the_old_schema(tmp_path):
    class FileSink(NotingSink):
        def setup(self):
            super().setup()
            (tmp_path / "a").write_text("")

        def process_batch(self, context):
            with (tmp_path / "a").open("a") as file:
                file.writelines(f"{record['id']} " for record in context["records"])

    run_target(schema(), *rows(1, 2), schema("a", id=ID), *rows(3), kind=make_target(FileSink))
    assert (tmp_path / "a").read_text() == "1 2 3 "


def test_repeated_schema_does_not_replace_the_sink():
    assert without_setup(run_target(schema(), *rows(1), schema(), *rows(2))) == [
        ("batch", "a", [1, 2])
    ]


def test_sinks_are_drained_in_parallel():
    together = threading.Barrier(3, timeout=60)

    class Meeting(NotingSink):
        def process_batch(self, context):
            together.wait()
            super().process_batch(context)

    lines = [item for name in "abc" for item in (schema(name), *rows(1, stream=name))]
    assert len(without_setup(run_target(*lines, state(1), kind=make_target(Meeting)))) == 4


def test_max_parallelism_can_be_set():
    loaded_target = target()
    assert loaded_target.max_parallelism == 8
    loaded_target.max_parallelism = 2
    assert loaded_target.max_parallelism == 2


def test_target_without_a_sink_class_is_rejected():
    class Bare(Target):
        name = "target-bare"

    with pytest.raises(ValueError, match="No sink class defined for 'a'"):
        Bare(config={}).listen(io.StringIO(schema()))


def test_failing_sink_setup_ends_the_run(caplog):
    class Broken(NotingSink):
        def setup(self):
            raise OSError("no connection")

    with pytest.raises(OSError, match="no connection"):
        run_target(schema(), kind=make_target(Broken))
    assert "Error initializing the sink of 'a'" in caplog.text


def test_record_without_a_schema_ends_the_run():
    with pytest.raises(RecordsWithoutSchemaException, match="stream 'a' was encountered before"):
        run_target(*rows(1))


def test_schema_without_properties_is_rejected():
    with pytest.raises(InvalidInputLine, match="missing required properties"):
        run_target('{"type":"SCHEMA","stream":"a","schema":{}}\n')


# Limits


def test_batch_is_drained_at_its_byte_limit():
    class Small(NotingSink):
        MAX_BYTES = 57  # three records, with spaces or without

    small = make_target(Small)
    assert without_setup(run_target(schema(), *rows(1, 2, 3, 4), kind=small)) == [
        ("batch", "a", [1, 2, 3]),
        ("batch", "a", [4]),
    ]
    hooked = type("Hooked", (small,), {"_process_record_message": passed_on})
    assert run_target(schema(), *rows(1, 2, 3, 4), kind=hooked)[-3:-1] == [
        ("batch", "a", [1, 2, 3]),
        ("batch", "a", [4]),
    ]


def passed_on(self, message_dict):
    Target._process_record_message(self, message_dict)


@pytest.mark.parametrize("hook", [{}, {"_process_record_message": passed_on}])
def test_batch_is_drained_at_its_age_limit(hook):
    old = make_target(NotingSink, _MAX_RECORD_AGE_IN_MINUTES=0.0, **hook)
    assert without_setup(run_target(schema(), *rows(1, 2), state(2), kind=old)) == [
        ("batch", "a", [1]),
        ("batch", "a", [2]),
        ("state", 2),
    ]


@pytest.mark.parametrize(
    "members",
    [
        {"max_size": 2},
        {"max_size": property(lambda self: 2)},
        {"MAX_SIZE_DEFAULT": 2},
        {"batch_size_rows": 2},
        {"is_full": property(lambda self: self.current_size == 2)},
        {"current_size": property(lambda self: self._batch_records_read * 5000)},
    ],
    ids=lambda members: next(iter(members)),
)
def test_overridden_size_attributes_decide_when_a_batch_is_full(members):
    kind = type("Own", (NotingSink,), members)
    assert without_setup(run_target(schema(), *rows(1, 2, 3), kind=make_target(kind))) == [
        ("batch", "a", [1, 2]),
        ("batch", "a", [3]),
    ]


# Versions and files


def test_version_is_activated_after_earlier_records_are_drained():
    lines = [schema(), record(id=1, v=7), state(1), activate("a", 7)]
    notes = run_target(*lines, add_record_metadata=True)
    assert without_setup(notes) == [("batch", "a", [1]), ("state", 1), ("version", 7)]


def test_version_that_comes_before_the_schema_is_activated_after_it():
    """S51: an ACTIVATE_VERSION may come before the stream's SCHEMA."""
    early = [activate("a", 6), activate("b", 1), activate("a", 7)]
    lines = [*early, schema(), record(id=1, v=7), schema(extra=ID, id=ID)]
    notes = run_target(*lines, add_record_metadata=True)
    assert without_setup(notes) == [("version", 7), ("batch", "a", [1])]


def test_batch_files_are_loaded_after_earlier_records(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id":2}\n')
    lines = [schema(), *rows(1), batch("a", str(path), format="jsonl"), state(1), *rows(3)]
    assert without_setup(run_target(*lines)) == [
        ("batch", "a", [1]),
        ("batch", "a", [2]),
        ("state", 1),
        ("batch", "a", [3]),
    ]


# Hooks and readers


def test_overridden_message_hooks_get_every_message():
    received = []

    class Hooked(NotingTarget):
        def _process_schema_message(self, message_dict):
            received.append(message_dict)
            super()._process_schema_message(message_dict)

        def _process_record_message(self, message_dict):
            received.append(message_dict)
            super()._process_record_message(message_dict)

        def _process_state_message(self, message_dict):
            received.append(message_dict)
            super()._process_state_message(message_dict)

    bookmarked = json.dumps({**json.loads(schema()), "bookmark_properties": ["id"]}) + "\n"
    lines = [bookmarked, schema(), record(id=1, extracted="2024-01-01", v=2), state({"n": 0.5})]
    notes = run_target(*lines, kind=Hooked)
    assert without_setup(notes) == [("batch", "a", [1]), ("state", {"n": Decimal("0.5")})]
    assert [item["type"] for item in received] == ["SCHEMA", "SCHEMA", "RECORD", "STATE"]
    assert received[0]["bookmark_properties"] == ["id"]
    assert received[2] == {
        "type": "RECORD",
        "stream": "a",
        "record": {"id": 1},
        "version": 2,
        "time_extracted": "2024-01-01",
    }


def test_custom_message_reader_is_used():
    class Reader:
        def process_lines(self, file_input, callbacks):
            for text in file_input:
                message = json.loads(text)
                callbacks[message["type"]](message)
            return {}

    custom_target = NotingTarget(config={}, message_reader=Reader())
    custom_target.listen([schema(), *rows(1), state(1)])
    assert without_setup(custom_target.notes) == [("batch", "a", [1]), ("state", 1)]

    class OfClass(NotingTarget):
        message_reader_class = Reader

    assert isinstance(OfClass(config={}).message_reader, Reader)


def test_sigterm_ends_a_custom_message_reader():
    class Reader:
        def process_lines(self, file_input, callbacks):
            callbacks["SCHEMA"](json.loads(schema()))
            custom_target._handle_termination(15, None)
            callbacks["STATE"](json.loads(state(1)))
            raise AssertionError("read on")

    custom_target = NotingTarget(config={}, message_reader=Reader())
    assert custom_target.listen() == 0
    assert custom_target.notes == [("made", "a"), ("setup", "a"), ("state", 1), ("clean", "a")]


def test_sigterm_outside_listen_exits_immediately():
    with pytest.raises(SystemExit):
        target()._handle_termination(15, None)


def test_process_lines_reads_standard_input_by_default(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(state(1).encode())))
    loaded_target = target()
    assert loaded_target.process_lines() == {"STATE": 1}
    assert loaded_target.notes == [("state", 1)]


def test_sink_that_calls_drain_all_loses_no_record():
    class Impatient(NotingSink):
        def process_record(self, record, context):
            if record["id"] == 2:
                self.target.drain_all()
                context = self._get_context(record)
            super().process_record(record, context)

        def __init__(self, target, **kwargs):
            super().__init__(target, **kwargs)
            self.target = target

    # The current record was counted when the batch was drained, and stored afterwards.
    notes = run_target(
        schema(), *rows(1), state(1), *rows(2, 3), state(3), kind=make_target(Impatient)
    )
    drained = [item for note in notes if note[0] == "batch" for item in note[2]]
    assert drained == [1, 2, 3]
    assert notes.index(("state", 1)) < notes.index(("state", 3))


def stopping_at(number, **members):
    """Return a target that gets a signal while it processes this record."""

    class Stopping(NotingSink):
        max_size = 2

        def __init__(self, target, **kwargs):
            super().__init__(target, **kwargs)
            self.target = target

        def process_record(self, record, context):
            super().process_record(record, context)
            if record["id"] == number:
                self.target._handle_termination(15, None)

    return make_target(Stopping, **members)


def chosen(self, stream_name, **kwargs):
    return Target.get_sink(self, stream_name, **kwargs)


@pytest.mark.parametrize("hook", [{}, {"_process_record_message": passed_on}, {"get_sink": chosen}])
def test_sigterm_stops_reading_records_and_draining(hook):
    kind = stopping_at(4, **hook)
    notes = run_target(schema(), *rows(1, 2), state(2), *rows(3, 4, 5), state(5), kind=kind)
    assert without_setup(notes) == [("batch", "a", [1, 2]), ("state", 2)]
    assert notes[-1] == ("clean", "a")


@pytest.mark.parametrize(
    "last", [schema("a", id=ID), activate("a", 1), batch("a", "/nowhere", format="jsonl")]
)
def test_draining_message_after_sigterm_does_nothing(last):
    class Stopping(NotingTarget):
        def drain_now(self):
            self._handle_termination(15, None)

        def get_sink(self, stream_name, **kwargs):
            if self._sinks_active:
                self.drain_now()
            return super().get_sink(stream_name, **kwargs)

    class Direct(Stopping):
        def _process_record_message(self, message_dict):
            sink = self._sinks_active["a"]
            self._router.get_pipeline(sink).add_record(message_dict["record"], None, None)
            self._states.watermark.add_holder(sink)

    notes = run_target(schema(), *rows(1), state(1), last, kind=Direct)
    assert without_setup(notes) == []
    assert notes.count(("clean", "a")) == notes.count(("made", "a"))


# Stream maps


def test_mapper_is_created_on_first_access():
    loaded_target = target()
    loaded_target.listen(io.StringIO(schema()))
    [only] = loaded_target.mapper.stream_maps["a"]
    assert only.raw_schema["properties"] == {"id": ID, "name": NAME}
    assert loaded_target.mapper.stream_maps is loaded_target.mapper.stream_maps
    with pytest.raises(MapperNotInitialized):
        _ = NotingTarget(config={}, setup_mapper=False).mapper


def test_mapper_set_on_the_target_is_used():
    from tap_core.mapper import PluginMapper

    maps = {"a": {"__alias__": "b", "id": "id * 10"}, "c": {"__source__": "a", "id": "id"}}
    loaded_target = target()
    loaded_target.mapper = PluginMapper(
        plugin_config={"stream_maps": maps}, logger=loaded_target.logger
    )
    lines = [schema(), schema("d"), *rows(1), *rows(2, stream="d"), state(1)]
    loaded_target.listen(io.StringIO("".join(lines)))
    drains = sorted(note for note in loaded_target.notes if note[0] == "batch")
    assert drains == [("batch", "b", [10]), ("batch", "c", [1]), ("batch", "d", [2])]
    assert ("state", 1) in loaded_target.notes


def test_records_filtered_by_a_map_are_not_loaded():
    from tap_core.mapper import PluginMapper

    loaded_target = target()
    config = {"stream_maps": {"a": {"__filter__": "id > 1"}, "b": None}}
    loaded_target.mapper = PluginMapper(plugin_config=config, logger=loaded_target.logger)
    lines = [schema(), schema("b"), *rows(1, 2), *rows(3, stream="b")]
    loaded_target.listen(io.StringIO("".join(lines)))
    assert [note for note in loaded_target.notes if note[0] == "batch"] == [("batch", "a", [2])]


# Other behaviour


def test_target_settings_are_added_to_the_schema():
    settings = NotingTarget._full_schema()["properties"]
    assert {"add_record_metadata", "batch_size_rows", "load_method", "validate_records"} <= set(
        settings
    )


def test_debug_log_has_a_line_without_values_for_each_record(caplog):
    with caplog.at_level(logging.DEBUG):
        run_target(schema(), *rows(1, 2))
    lines = [line for line in caplog.messages if line.startswith("Processed record")]
    assert lines == ["Processed record 1 of the batch.", "Processed record 2 of the batch."]


def test_missing_key_property_is_named_in_the_error():
    with pytest.raises(
        MissingKeyPropertiesError, match=r"Key Properties: \['id'\].*\[stream 'a'\]"
    ):
        run_target(schema(), record(name="x"))


def test_tap_import_does_not_import_target_modules():
    program = """
import sys
from tap_core import Tap
assert not [name for name in sys.modules if name.startswith("tap_core.sinks")]
assert "tap_core.target_base" not in sys.modules
from tap_core import BatchSink, RecordSink, Sink, Target
assert "jsonschema" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_sink_without_process_batch_raises_not_implemented():
    class Half(Sink):
        def process_record(self, record, context):
            pass

        def process_batch(self, context):
            super().process_batch(context)

    with pytest.raises(NotImplementedError, match="process_batch"):
        run_target(schema(), *rows(1), kind=make_target(Half, notes=[]))


OPEN_FILES = """from tap_core import RecordSink, Target

class OpenSink(RecordSink):
    file = None

    def process_record(self, record, context):
        self.file = self.file or open(self.config["path"], "w")
        self.file.write(f"{record['id']}\\n")

class OpenTarget(Target):
    name = "target-open"
    config_jsonschema = {"properties": {"path": {"type": "string"}}}
    default_sink_class = OpenSink

OpenTarget.cli()
"""


def run_open_files(folder, path):
    (folder / "target_open.py").write_text(OPEN_FILES)
    (folder / "config.json").write_text(json.dumps({"path": str(path)}))
    lines = [schema(id=ID), *(record(id=number) for number in range(3)), state({"at": 3})]
    return subprocess.run(
        [sys.executable, "target_open.py", "--config", "config.json"],
        cwd=folder,
        input="".join(lines),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )


def test_rows_in_a_file_that_a_sink_leaves_open_are_written_at_the_end(tmp_path):
    ended = run_open_files(tmp_path, tmp_path / "rows")
    assert json.loads(ended.stdout) == {"at": 3}
    assert (tmp_path / "rows").read_text().split() == ["0", "1", "2"]


def test_open_file_that_cannot_be_written_at_the_end_is_logged(tmp_path):
    ended = run_open_files(tmp_path, "/dev/full")
    assert "File /dev/full cannot be written: [Errno 28]" in ended.stderr


class Upload(io.BufferedIOBase):
    """A file of a library for uploads, whose `flush` raises an error."""

    name = "bucket/rows"

    def __init__(self, error):
        self.error = error

    def flush(self):
        if self.error:
            raise self.error


@pytest.mark.parametrize(
    ("error", "logged"),
    [
        (io.UnsupportedOperation("call close() instead"), []),
        (RuntimeError("403 Forbidden"), ["File bucket/rows cannot be written: 403 Forbidden"]),
    ],
)
def test_upload_that_cannot_be_flushed_at_the_end_does_not_stop_others(caplog, error, logged):
    upload = Upload(error)
    _flush(upload)
    upload.error = None
    assert caplog.messages == logged
