"""Targets that tap_core and singer_sdk run; only the import lines differ."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import logging
import sys
from decimal import Decimal
from pathlib import Path

from tap_core import BatchSink, RecordSink, Sink, Target
from tap_core.helpers.conform import DatetimeErrorTreatmentEnum

STRING = {"type": ["string", "null"]}


def to_json(value):
    """Encode values that JSON lacks with their type, so that types are compared as well."""
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, (dt.date, dt.time)):
        return {type(value).__name__: value.isoformat()}
    raise TypeError(type(value))


def line(kind, value):
    return json.dumps([kind, value], default=to_json) + "\n"


class Writing:
    """Sink mixin that writes a line for each call into the stream's file."""

    def note(self, kind, value=None):
        path = Path(self.config["out"], f"{self.stream_name}.jsonl")
        with path.open("a") as out:
            out.write(line(kind, value))

    def setup(self):
        super().setup()
        self.note("setup", [list(self.schema["properties"]), list(self.key_properties)])

    def activate_version(self, new_version):
        self.note("version", new_version)

    @property
    def datetime_error_treatment(self):
        return DatetimeErrorTreatmentEnum[self.config.get("treatment", "ERROR")]


class FileSink(Writing, BatchSink):
    def process_batch(self, context):
        self.note("batch", context["records"])


class FileRecordSink(Writing, RecordSink):
    def process_record(self, record, context):
        self.note("record", [record, dict(context)])


class TolerantSink(FileSink):
    fail_on_record_validation_exception = False
    max_size = 3


class StrictSink(FileSink):
    validate_field_string_format = True


class HookedSink(FileSink):
    """Sink that overrides the hooks between a record and its processing."""

    def start_batch(self, context):
        context["names"] = []

    def preprocess_record(self, record, context):
        context["names"].append(record.get("name"))
        return {**record, "prepared": True}

    def process_record(self, record, context):
        if record["id"] == 3:
            self.tally_duplicate_merged()
            return
        super().process_record(record, context)

    def process_batch(self, context):
        self.note("names", context["names"])
        super().process_batch(context)

    def _validate_and_parse(self, record):
        record = super()._validate_and_parse(record)
        record["parsed"] = True
        return record


class BareSink(Writing, Sink):
    """A sink that is neither a BatchSink nor a RecordSink."""

    @property
    def is_full(self):
        return self.current_size >= 2

    def process_record(self, record, context):
        self.records_to_drain.append(record)

    def process_batch(self, context):
        self.note("bare", self.records_to_drain)
        self.records_to_drain = []


class FileTarget(Target):
    """Writes files."""

    name = "target-file"
    config_jsonschema = {
        "properties": {
            "out": {"type": "string"},
            "treatment": {"type": "string"},
        }
    }
    default_sink_class = FileSink

    def get_sink_class(self, stream_name):
        kinds = {
            "single": FileRecordSink,
            "tolerant": TolerantSink,
            "strict": StrictSink,
            "hooked": HookedSink,
            "bare": BareSink,
        }
        return kinds.get(stream_name) or super().get_sink_class(stream_name)


class HookedTarget(FileTarget):
    """Target that overrides the hooks per message and chooses sinks by record."""

    def _process_record_message(self, message_dict):
        message_dict["record"]["seen"] = sorted(message_dict)
        super()._process_record_message(message_dict)

    def get_sink(self, stream_name, *, record=None, schema=None, key_properties=None):
        if record is not None and record.get("id", 0) % 2:
            return self._sinks_active["odd"]
        return super().get_sink(
            stream_name, record=record, schema=schema, key_properties=key_properties
        )

    def _write_state_message(self, state):
        super()._write_state_message({"mine": state})


def run(case, folder):
    """Run one case; return states, errors and warnings."""
    folder.mkdir()
    config = {"out": str(folder), **case.get("config", {})}
    kind = {"file": FileTarget, "hooked": HookedTarget}[case.get("target", "file")]
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(logging.Formatter("%(name)s %(message)s"))
    logging.getLogger("target-file").addHandler(handler)
    error, out = None, io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            kind(config=config).listen(io.StringIO("".join(case["lines"])))
        except Exception as raised:  # noqa: BLE001  the tests compare the errors
            error = [type(raised).__name__, str(raised)]
    logging.getLogger("target-file").removeHandler(handler)
    warnings = [text for text in log.getvalue().splitlines() if text.startswith("target-file")]
    states = [json.loads(text) for text in out.getvalue().splitlines()]
    return {"error": error, "states": states, "warnings": warnings}


if __name__ == "__main__":
    root = Path(sys.argv[1])
    cases = json.loads((root / "cases.json").read_text())
    results = {name: run(case, root / name) for name, case in cases.items()}
    (root / "results.json").write_text(json.dumps(results))
