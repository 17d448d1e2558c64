"""Row values in error messages, and the environment variable that hides them."""

from __future__ import annotations

import datetime as dt
import logging

import pytest

from tap_core.exceptions import InvalidInputLine, InvalidRecord, MapExpressionError
from tap_core.io.json_lines import excerpt
from tap_core.logging import StructuredFormatter
from tap_core.mapper import CustomStreamMap
from tap_core.protocols.singer.custom_message_reader import SimpleSingerReader
from tap_core.redaction.row_values import LOG_ROWS, describe_value, show_value
from tap_core.sinks.validation import JSONSchemaValidator
from tap_core.typing.values import DatetimeErrorTreatmentEnum, handle_invalid_timestamp_in_record

SCHEMA = {"properties": {"id": {"type": "integer"}}, "required": ["id"]}


@pytest.fixture(params=["false", "0", "No", " OFF "])
def without_rows(request, monkeypatch):
    monkeypatch.setenv(LOG_ROWS, request.param)


def full_text(error: BaseException | None) -> str:
    text = ""
    while error is not None:
        text += f"{error!r} {error}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return text


def test_row_values_are_shown_by_default(monkeypatch):
    monkeypatch.delenv(LOG_ROWS, raising=False)
    assert excerpt(b'{"name": "Ada"') == '{"name": "Ada"'
    assert show_value("Ada") == "Ada"
    with pytest.raises(InvalidRecord, match="'Ada' is not of type 'integer'"):
        JSONSchemaValidator(SCHEMA).validate({"id": "Ada"})


@pytest.mark.usefixtures("without_rows")
def test_invalid_line_is_described_without_its_values(caplog):
    assert excerpt(b'{"name": "Ada"') == "<14 bytes>"
    with pytest.raises(InvalidInputLine) as caught:
        SimpleSingerReader().deserialize_json('{"name": "Ada"')
    assert "Ada" not in str(caught.value) + caplog.text
    with pytest.raises(InvalidInputLine, match="<object of 1 fields>"):
        SimpleSingerReader.assert_line_requires({"name": "Ada"}, {"type"})


@pytest.mark.usefixtures("without_rows")
def test_error_of_a_stream_map_does_not_contain_values():
    schema = {"properties": {"name": {"type": "string"}}}
    stream_map = CustomStreamMap("s", {}, {}, schema, [], {"age": "int(name)"}, None)
    with pytest.raises(MapExpressionError, match=r"stream 's': ValueError\.") as caught:
        stream_map.transform({"name": "Ada"})
    assert "Ada" not in full_text(caught.value)
    error = (caught.type, caught.value, None)
    logged = logging.LogRecord("tap-x", logging.ERROR, __file__, 1, "It failed.", (), error)
    assert "Ada" not in StructuredFormatter().format(logged)


@pytest.mark.usefixtures("without_rows")
def test_invalid_record_is_described_without_its_values():
    with pytest.raises(InvalidRecord) as caught:
        JSONSchemaValidator(SCHEMA).validate({"id": "Ada"})
    assert "id: <text of 3 characters> does not fit type 'integer'" in str(caught.value)
    assert "Ada" not in full_text(caught.value)
    with pytest.raises(InvalidRecord, match="'id' is a required property"):
        JSONSchemaValidator(SCHEMA).validate({"name": "Ada"})


@pytest.mark.usefixtures("without_rows")
@pytest.mark.parametrize("treatment", list(DatetimeErrorTreatmentEnum))
def test_unparsable_date_is_described_without_its_value(caplog, treatment):
    caplog.set_level(logging.DEBUG)
    arguments = {}, ["at"], "Ada 1815", "date-time", ValueError("Unknown: Ada 1815"), treatment
    text = ""
    try:
        handle_invalid_timestamp_in_record(*arguments, logging.getLogger("t"))
    except ValueError as error:
        text = full_text(error)
    assert "Ada" not in text + caplog.text
    assert "<text of 8 characters>" in text + caplog.text


def test_descriptions_name_type_and_length():
    values = ["abc", b"ab", {"a": 1}, [1, 2], (1,), None, True, 1, 1.5, dt.date(2020, 1, 1)]
    assert list(map(describe_value, values)) == [
        "<text of 3 characters>",
        "<2 bytes>",
        "<object of 1 fields>",
        "<array of 2 items>",
        "<array of 1 items>",
        "<null>",
        "<boolean>",
        "<integer>",
        "<number>",
        "<date>",
    ]
