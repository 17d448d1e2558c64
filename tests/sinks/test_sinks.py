"""Hooks of a sink: each override of a subclass is called."""

from __future__ import annotations

import io
import json
import logging
from datetime import datetime, timezone

import pytest

from tap_core import BatchSink, Target
from tap_core.exceptions import InvalidRecord
from tap_core.sinks.validation import BaseJSONSchemaValidator

PROPERTIES = {
    "id": {"type": "integer"},
    "at": {"type": ["string", "null"], "format": "date-time"},
}


class ListSink(BatchSink):
    """Sink that appends its records to a list of its target."""

    def process_batch(self, context):
        self.loaded_records.extend(context["records"])

    def __init__(self, target, *args, **kwargs):
        super().__init__(target, *args, **kwargs)
        self.loaded_records = target.loaded_records


class ListTarget(Target):
    name = "target-keeping"

    def __init__(self, **kwargs):
        self.loaded_records = []
        super().__init__(**kwargs)


def load_records(*records, schema=None, config=None, **members):
    """Load records with a sink that has these members; return the sink and the loaded records."""
    sink = type("CustomSink", (ListSink,), members)
    target = type("CustomTarget", (ListTarget,), {"default_sink_class": sink})(config=config or {})
    schema = schema or {"properties": PROPERTIES}
    lines = [{"type": "SCHEMA", "stream": "a", "schema": schema, "key_properties": ["id"]}]
    lines += [{"type": "RECORD", "stream": "a", "record": record} for record in records]
    target.listen(io.StringIO("".join(json.dumps(line) + "\n" for line in lines)))
    [active_sink] = target._sinks_active.values()
    return active_sink, target.loaded_records


def test_overridden_validate_and_parse_is_called(caplog):
    def validate_and_parse(self, record):
        record["mine"] = True
        return super(ListSink, self)._validate_and_parse(record)

    _, rows = load_records(
        {"id": 1, "at": "2024-01-01T00:00:00Z", "z": 1, "_sdc_sequence": 1},
        _validate_and_parse=validate_and_parse,
    )
    time = datetime(2024, 1, 1, tzinfo=timezone.utc)
    assert rows == [{"id": 1, "at": time, "z": 1, "mine": True}]
    assert "No schema for record field 'z'" in caplog.text


def test_overridden_validate_and_parse_keeps_the_validation_errors(caplog):
    def validate_and_parse(self, record):
        return super(ListSink, self)._validate_and_parse(record)

    hook = {"_validate_and_parse": validate_and_parse}
    with pytest.raises(InvalidRecord, match="'x' is not of type 'integer'"):
        load_records({"id": "x"}, **hook)
    _, rows = load_records({"id": "x"}, fail_on_record_validation_exception=False, **hook)
    assert rows == [{"id": "x"}]
    assert "Record validation failed" in caplog.text
    _, rows = load_records({"id": "x"}, get_validator=lambda _self: None, **hook)
    assert rows == [{"id": "x"}]


def test_overridden_timestamp_parser_is_called():
    def parse(self, record, schema, treatment):
        record["at"] = [record["at"], sorted(schema), treatment.value]

    _, rows = load_records({"id": 1, "at": "x"}, _parse_timestamps_in_record=parse)
    assert rows == [{"id": 1, "at": ["x", ["properties"], "error"]}]


def test_overridden_metadata_removal_keeps_sdc_columns():
    _, rows = load_records(
        {"id": 1, "_sdc_sequence": 3}, _remove_sdc_metadata_from_record=lambda *_: None
    )
    assert rows == [{"id": 1, "_sdc_sequence": 3}]


def test_overridden_metadata_hook_adds_columns():
    def add_metadata(self, record, message, context):
        record["message"] = sorted(message)
        record["batch"] = sorted(context)

    _, [row] = load_records(
        {"id": 1}, config={"add_record_metadata": True}, _add_sdc_metadata_to_record=add_metadata
    )
    assert row["message"] == ["record", "stream", "type"]
    assert {"batch_id", "batch_start_time"} <= set(row["batch"])


def test_custom_validator_is_used():
    class Even(BaseJSONSchemaValidator):
        def validate(self, record):
            if record["id"] % 2:
                raise InvalidRecord("odd", record)

    def validator(self):
        return Even(self.schema)

    _, rows = load_records({"id": 2}, get_validator=validator)
    assert rows == [{"id": 2}]
    with pytest.raises(InvalidRecord, match="odd"):
        load_records({"id": 1}, get_validator=validator)


@pytest.mark.parametrize(
    ("logs_rows", "reason"),
    [
        ("true", "'secret' is not of type 'integer'"),
        ("false", "<text of 6 characters> does not fit type 'integer'"),
    ],
)
def test_error_of_an_invalid_record_names_stream_and_property(
    logs_rows, reason, caplog, monkeypatch
):
    monkeypatch.setenv("TAP_CORE_LOG_ROWS", logs_rows)
    numbers = {"type": "array", "items": {"type": "integer"}}
    schema = {"properties": {"a": {"type": "object", "properties": {"b": numbers}}}}
    with pytest.raises(InvalidRecord) as exc_info:
        load_records({"id": 1, "a": {"b": [1, "secret"]}}, schema=schema)
    message = f"stream 'a': a.b[1]: {reason}"
    assert str(exc_info.value) == f"Record Message Validation Error: {message}"
    assert exc_info.value.stream_name == "a"
    assert f"Record validation failed: {message}" in caplog.text
    assert logs_rows == "true" or "secret" not in caplog.text


def test_validation_is_off_if_get_validator_returns_none():
    _, rows = load_records({"id": "x"}, get_validator=lambda _self: None)
    assert rows == [{"id": "x"}]


def test_overridden_key_check_is_called():
    _, rows = load_records({"at": None}, _singer_validate_message=lambda _self, _record: None)
    assert rows == [{"at": None}]


def test_value_without_a_hash_is_validated_by_jsonschema():
    class Unhashable(str):
        __slots__ = ()

        def __hash__(self):
            raise RuntimeError("no hash")

    def get_context(self, record):
        record["id"] = Unhashable("x")
        return super(ListSink, self)._get_context(record)

    properties = {"id": {"enum": ["x"]}}
    _, rows = load_records({"id": "x"}, schema={"properties": properties}, _get_context=get_context)
    assert rows == [{"id": "x"}]


def test_number_too_large_for_multiple_of_is_an_invalid_record():
    """Jsonschema itself raises decimal.InvalidOperation, which names neither record nor reason."""
    schema = {"properties": {"id": {"type": "number", "multipleOf": 0.01}}}
    with pytest.raises(InvalidRecord, match="beyond what can be compared"):
        load_records({"id": 10**60}, schema=schema)


def test_records_read_written_and_merged_are_counted():
    def process_batch(self, context):
        self.tally_duplicate_merged()

    sink, _ = load_records({"id": 1}, {"id": 2}, {"id": 1}, max_size=2, process_batch=process_batch)
    assert sink._total_records_read == 3
    assert sink._total_records_written == 1
    assert sink._total_dupe_records_merged == 2


def test_additional_properties_allowed_by_the_schema_cause_no_warning(caplog):
    schema = {"properties": PROPERTIES, "additionalProperties": True}
    with caplog.at_level(logging.WARNING):
        _, rows = load_records({"id": 1, "z": 1}, schema=schema)
    assert rows == [{"id": 1, "z": 1}]
    assert "No schema" not in caplog.text


def test_first_unparsable_date_in_record_order_is_the_error():
    properties = {**PROPERTIES, "day": {"type": "string", "format": "date"}}
    with pytest.raises(ValueError, match="'day'"):
        load_records({"id": 1, "day": "x", "at": "y"}, schema={"properties": properties})
