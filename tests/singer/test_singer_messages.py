"""Message classes that authors use directly."""

from __future__ import annotations

import json
import subprocess
import uuid
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from types import MappingProxyType

import pytest

from tap_core import singerlib as singer
from tap_core.singerlib.messages import format_message, write_message
from tap_core.singerlib.types import KeyProperties
from tests.peers import missing_reason, peer_python

PEER = peer_python("singer_sdk")

CASES = """
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
import uuid
east = timezone(timedelta(hours=2))
messages = [
    singer.SchemaMessage("s", {"type": "object"}, ["id"], "updated"),
    singer.SchemaMessage("s", {"type": "object"}),
    singer.SchemaMessage("s", {}, [], []),
    singer.RecordMessage("s", {"id": 1, "none": None, "x": Decimal("1.10")}),
    singer.RecordMessage("s", {"d": datetime(2024, 1, 2, 3, tzinfo=east), "e": date(2024, 1, 2)},
        version=7, time_extracted=datetime(2024, 1, 2, 3, tzinfo=east)),
    singer.RecordMessage("s", {"u": uuid.UUID(int=5), "f": float("nan"), "t": (1, 2), "é": "ü"}),
    singer.RecordMessage("s", {"big": 2**80, "dec": Decimal("1E+5"), 1: True, None: 2}),
    singer.StateMessage({"bookmarks": {"s": {"a": None}}}),
    singer.ActivateVersionMessage("s", 12),
]
"""


def make_messages() -> list:
    scope = {"singer": singer}
    exec(CASES, scope)  # noqa: S102  the same text runs in the peer's process
    return scope["messages"]


@pytest.mark.peer
@pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk"))
def test_messages_equal_those_of_singer_sdk():
    program = f"""
import json
from singer_sdk import singerlib as singer
{CASES}
print(json.dumps([[singer.format_message(m), repr(m.to_dict())] for m in messages]))
"""
    process = subprocess.run([str(PEER), "-c", program], check=True, capture_output=True, text=True)
    for message, (text, fields) in zip(make_messages(), json.loads(process.stdout), strict=True):
        assert repr(message.to_dict()) == fields
        ours = json.loads(format_message(message), parse_float=str)
        assert ours == json.loads(text, parse_float=str)


def test_values_are_written_with_all_digits():
    record = {"a": Decimal("1.10"), "b": Decimal("NaN"), "c": 2**80, "d": date(2024, 1, 2)}
    record |= {"e": uuid.UUID(int=1), "f": MappingProxyType({"x": 1})}
    assert format_message(singer.RecordMessage("s", record)) == (
        '{"type":"RECORD","stream":"s","record":{"a":1.10,"b":null,'
        '"c":1208925819614629174706176,"d":"2024-01-02",'
        '"e":"00000000-0000-0000-0000-000000000001","f":{"x":1}}}'
    )


def test_unusual_text_and_numbers_are_written_also_next_to_a_decimal():
    """A lone surrogate cannot be represented in UTF-8."""

    class Float64(float):
        """Like NumPy's."""

    record = {"a": Decimal(1), "b": "x\ud83d", "\ud83d": Float64(0.5)}
    assert format_message(singer.RecordMessage("s", record)).endswith('{"a":1,"b":"x?","?":0.5}}')


def test_time_extracted_requires_a_time_zone_and_is_stored_in_utc():
    with pytest.raises(ValueError, match="time zone"):
        singer.RecordMessage("s", {}, time_extracted=datetime(2024, 1, 1))  # noqa: DTZ001
    east = timezone(timedelta(hours=2))
    message = singer.RecordMessage("s", {}, time_extracted=datetime(2024, 1, 1, tzinfo=east))
    assert message.time_extracted == datetime(2023, 12, 31, 22, tzinfo=timezone.utc)
    assert message.time_extracted.tzinfo is timezone.utc


def test_from_dict_creates_a_message():
    wire = {"type": "RECORD", "stream": "s", "record": {"id": 1}, "version": 3}
    wire["time_extracted"] = "2024-01-02T03:04:05.5Z"
    message = singer.RecordMessage.from_dict(wire)
    assert message.type == singer.SingerMessageType.RECORD
    assert message.time_extracted == datetime(2024, 1, 2, 3, 4, 5, 500000, tzinfo=timezone.utc)
    assert singer.RecordMessage.from_dict({"stream": "s", "record": {}}).time_extracted is None
    state = {"type": "STATE", "value": {"x": 1}}
    assert singer.StateMessage.from_dict(state) == singer.StateMessage({"x": 1})
    assert state == {"type": "STATE", "value": {"x": 1}}


def test_bookmark_properties_are_a_list_of_strings():
    assert singer.SchemaMessage("s", {}, None, "a").bookmark_properties == ["a"]
    with pytest.raises(ValueError, match="'bookmark_properties' must be a string or list"):
        singer.SchemaMessage("s", {}, None, {"a"})


def test_record_is_not_copied():
    record = {"id": 1}
    assert singer.RecordMessage("s", record).to_dict()["record"] is record


def test_message_is_written_as_one_line(capsys):
    write_message(singer.ActivateVersionMessage("s", 2))
    assert capsys.readouterr().out == '{"type":"ACTIVATE_VERSION","stream":"s","version":2}\n'


def test_functions_write_messages_of_each_type(capsys):
    keys: KeyProperties = ("id",)
    singer.write_schema("s", {}, key_properties=keys, bookmark_properties=["at"])
    singer.write_record("s", {"id": 1}, version=2)
    singer.write_state({"bookmarks": {}})
    singer.write_version("s", 2)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {
            "type": "SCHEMA",
            "stream": "s",
            "schema": {},
            "key_properties": ["id"],
            "bookmark_properties": ["at"],
        },
        {"type": "RECORD", "stream": "s", "record": {"id": 1}, "version": 2},
        {"type": "STATE", "value": {"bookmarks": {}}},
        {"type": "ACTIVATE_VERSION", "stream": "s", "version": 2},
    ]
