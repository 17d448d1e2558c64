"""Reading and writing of JSON documents."""

from __future__ import annotations

import enum
import json
from datetime import datetime, timezone
from decimal import Decimal

import pytest

from tap_core.helpers import _util
from tap_core.singerlib.json import deserialize_json, serialize_json


class Color(str, enum.Enum):
    RED = "red"


class Size(enum.IntEnum):
    BIG = 9


def test_numbers_survive_a_json_round_trip():
    text = '{"a":0.10,"b":1208925819614629174706176,"c":[1E+5],"d":null,"e":true}'
    assert _util.dump_json(_util.load_json(text)) == text


def test_enum_members_are_written_as_their_values():
    document = {"c": Color.RED, "s": Size.BIG, Color.RED: 1, "t": (1, 2)}
    assert _util.dump_json(document) == '{"c":"red","s":9,"red":1,"t":[1,2]}'


def test_keys_that_are_not_strings_become_strings():
    assert _util.dump_json({None: 2, True: 3, 1.5: 4, (1,): 5}) == (
        '{"null":2,"true":3,"1.5":4,"(1,)":5}'
    )


def test_json_can_be_indented_and_sorted():
    text = _util.dump_json({"b": [1, Decimal("0.10")], "a": {}}, indent=2, sort_keys=True)
    assert text == '{\n  "a": {},\n  "b": [\n    1,\n    0.10\n  ]\n}'


def test_value_that_json_lacks_needs_a_default_function():
    moment = datetime(2024, 1, 2, tzinfo=timezone.utc)
    with pytest.raises(TypeError, match="'datetime'"):
        _util.dump_json({"a": moment})
    assert _util.dump_json({"a": moment}, default=str) == '{"a":"2024-01-02 00:00:00+00:00"}'
    assert serialize_json({"a": moment}) == '{"a":"2024-01-02T00:00:00+00:00"}'


def test_nan_and_infinity_are_written_as_null():
    assert serialize_json([float("nan"), float("inf"), Decimal("Infinity")]) == "[null,null,null]"


def test_fractions_are_read_as_decimals():
    assert deserialize_json(b'{"a": 0.1}') == {"a": Decimal("0.1")}
    assert deserialize_json('{"a": 0.5}', parse_float=float) == {"a": 0.5}
    with pytest.raises(json.JSONDecodeError):
        deserialize_json("{")


def test_missing_file_error_names_the_path_and_a_template(tmp_path):
    path = tmp_path / "c.json"
    with pytest.raises(FileNotFoundError, match=r"no file '.*c\.json'\.$"):
        _util.read_json_file(path)
    (tmp_path / "c.json.template").write_text("{}")
    with pytest.raises(FileNotFoundError, match=r"template to start from: .*c\.json\.template"):
        _util.read_json_file(str(path))
    path.write_text('{"x": 1}')
    assert _util.read_json_file(path) == {"x": 1}
    with pytest.raises(RuntimeError, match="No path"):
        _util.read_json_file("")
