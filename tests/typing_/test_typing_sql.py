"""Conversion between SQL types and JSON Schema in `tap_core.typing`."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

from tap_core import typing as th
from tap_core.exceptions import SingerSDKPendingDeprecationWarning
from tests.peers import missing_reason, peer_python

PEER = peer_python("singer_sdk")
ROOT = Path(__file__).resolve().parents[2]
HAS_SQLALCHEMY = importlib.util.find_spec("sqlalchemy") is not None

pytestmark = pytest.mark.filterwarnings(
    "ignore::tap_core.exceptions.SingerSDKPendingDeprecationWarning"
)

COMPARISON = """
import inspect, itertools
import sqlalchemy.types as sql
import singer_sdk.typing as theirs
import tap_core.typing as ours

def outcome(function, argument):
    try:
        return repr(function(argument))
    except Exception as ex:
        return type(ex).__name__

kinds = [kind for _, kind in inspect.getmembers(sql, inspect.isclass)
         if issubclass(kind, sql.TypeEngine)]
given = [*kinds, sql.VARCHAR(10), sql.DATETIME(), sql.JSON(), int, "bigint", "nothing known"]
names = ["string", "integer", "number", "boolean", "object", "array", "null"]
schemas = [{"type": kind} for pair in itertools.product(names, names)
           for kind in (pair[0], list(pair))]
schemas += [{**schema, "format": one} for schema in schemas
            for one in ("date", "time", "date-time", "uuid")]
schemas += [{**schema, "maxLength": 7} for schema in schemas]
schemas += [{"anyOf": [first, second]} for first, second in zip(schemas, reversed(schemas))]
schemas += [{}, {"const": 1}]
pairs = [("to_jsonschema_type", one) for one in given]
pairs += [("to_sql_type", one) for one in schemas]
for name, one in pairs:
    expected, found = (outcome(getattr(th, name), one) for th in (theirs, ours))
    assert expected == found, (name, one, expected, found)
print(len(pairs))
"""


@pytest.mark.peer
@pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk"))
def test_sql_type_conversions_are_those_of_singer_sdk():
    process = subprocess.run(
        [str(PEER), "-W", "ignore", "-c", COMPARISON],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert int(process.stdout) > 1000


@pytest.mark.parametrize(
    "name, expected",
    [
        ("TIMESTAMP", th.DateTimeType),
        ("date", th.DateType),
        ("bigint", th.IntegerType),
        ("DECIMAL(10, 2)", th.NumberType),
        ("VARCHAR", th.StringType),
        ("bool", th.BooleanType),
        ("geography", th.StringType),
    ],
)
def test_sql_type_names_are_converted_to_json_schema(name, expected):
    assert th.to_jsonschema_type(name) == expected.type_dict


@pytest.mark.skipif(HAS_SQLALCHEMY, reason="SQLAlchemy is installed, so nothing is missing")
def test_missing_sqlalchemy_error_names_the_extra():
    with pytest.raises(ModuleNotFoundError, match=r"\[sql\]"):
        th.to_sql_type({"type": "string"})


@pytest.mark.skipif(not HAS_SQLALCHEMY, reason="SQLAlchemy, an extra, is not installed")
@pytest.mark.parametrize(
    "schema, name",
    [
        ({"type": ["string", "null"], "maxLength": 7}, "VARCHAR(7)"),
        ({"type": "string", "format": "date-time"}, "DATETIME"),
        ({"anyOf": [{"type": "object"}, {"type": "null"}], "maxLength": 7}, "VARCHAR"),
        ({"type": ["null", "integer"]}, "INTEGER"),
        ({"type": "number"}, "DECIMAL"),
        ({"type": "boolean"}, "BOOLEAN"),
        ({}, "VARCHAR"),
    ],
)
def test_json_schemas_are_converted_to_sql_types(schema, name):
    assert str(th.to_sql_type(schema)) == name


@pytest.mark.skipif(not HAS_SQLALCHEMY, reason="SQLAlchemy, an extra, is not installed")
def test_sql_types_may_be_classes_or_instances():
    types = importlib.import_module("sqlalchemy.types")
    assert th.to_jsonschema_type(types.BIGINT) == th.IntegerType.type_dict
    assert th.to_jsonschema_type(types.VARCHAR(3)) == th.StringType.type_dict
    with pytest.raises(ValueError, match="neither"):
        th.to_jsonschema_type(3)


def test_to_jsonschema_type_warns_and_names_its_replacement():
    with pytest.warns(SingerSDKPendingDeprecationWarning, match="SQLToJSONSchema"):
        th.to_jsonschema_type("bigint")


@pytest.mark.parametrize(
    "schema, admits",
    [
        ({"type": "string"}, True),
        ({"type": ["null", "string"]}, True),
        ({"anyOf": [{"type": "integer"}, {"type": ["string", "null"]}]}, True),
        ({"type": "integer"}, False),
        ({}, False),
    ],
)
def test_jsonschema_type_check_finds_allowed_types(schema, admits):
    assert th._jsonschema_type_check(schema, ("string",)) is admits
