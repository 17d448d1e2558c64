"""Small taps, each with one fault, and their tests: a test module that two SDKs can run.

Pytest does not collect this file. The tests copy it to a test module with the import lines of
the SDK that runs it.
"""

from __future__ import annotations

import datetime as dt

import pytest

from tap_core import Stream, Tap
from tap_core import typing as th
from tap_core.testing import SuiteConfig, get_standard_tap_tests, get_tap_test_class
from tap_core.testing.suites import SingerTestSuite
from tap_core.testing.templates import (
    AttributeTestTemplate,
    StreamTestTemplate,
    TapTestTemplate,
    TestTemplate,
)

assert issubclass(TapTestTemplate, TestTemplate), "imported as authors do, and not collected"

STAMP = "2024-05-06T07:08:09+00:00"
GOOD = {
    "id": 1,
    "at": STAMP,
    "day": "2024-05-06",
    "on": True,
    "ratio": 0.5,
    "address": {"street": "Elm"},
    "tags": ["a"],
    "note": None,
}
SCHEMA = th.PropertiesList(
    th.Property("id", th.IntegerType, required=True),
    th.Property("at", th.DateTimeType),
    th.Property("day", th.DateType),
    th.Property("on", th.BooleanType),
    th.Property("ratio", th.NumberType),
    th.Property("address", th.ObjectType(th.Property("street", th.StringType))),
    th.Property("tags", th.ArrayType(th.StringType)),
    th.Property("note", th.StringType),
).to_dict()


class Table(Stream):
    name = "things"
    primary_keys = ("id",)
    schema = SCHEMA
    rows = (GOOD, {**GOOD, "id": 2, "note": "n"})

    def get_records(self, context):
        for row in self.rows:
            yield dict(row)


class TapOf(Tap):
    name = "tap-of"
    config_jsonschema = th.PropertiesList(th.Property("token", th.StringType)).to_dict()
    tables = ()

    def discover_streams(self):
        return [table(self) for table in self.tables]


def tap(**members):
    """Return a tap class with one stream that has these members."""
    return create_tap(type("Things", (Table,), members))


def create_tap(*tables):
    return type("TapThings", (TapOf,), {"tables": tables})


def schema(**properties):
    return {"type": "object", "properties": {"id": {"type": "integer"}, **properties}}


def rows(**values):
    return [{"id": 1, **values}]


def nullable(kind, **kwargs):
    return {"type": [kind, "null"], **kwargs}


TestGood = get_tap_test_class(tap(), config={"token": "t"})

TestEmpty = get_tap_test_class(tap(rows=()))
TestEmptyAllowed = get_tap_test_class(
    tap(rows=()), suite_config=SuiteConfig(ignore_no_records=True)
)
TestEmptyAllowedByName = get_tap_test_class(
    tap(rows=()), suite_config=SuiteConfig(ignore_no_records_for_streams=["things"])
)
TestAllNull = get_tap_test_class(
    tap(schema=schema(at=nullable("string", format="date-time")), rows=rows(at=None))
)
TestNeverThere = get_tap_test_class(tap(schema=schema(rare=nullable("string")), rows=rows()))

TestWrongType = get_tap_test_class(
    tap(
        schema=schema(age=nullable("integer")),
        rows=[{"id": 1, "age": 5}, {"id": 2, "age": "old"}, {"id": 3, "age": "older"}],
    )
)
TestWrongNumber = get_tap_test_class(tap(schema=schema(x=nullable("number")), rows=rows(x="1.5")))
TestWrongBoolean = get_tap_test_class(
    tap(
        schema=schema(x={"type": ["boolean", "string"]}),
        rows=[{"id": 1, "x": "True"}, {"id": 2, "x": "maybe"}],
    )
)
TestWrongObject = get_tap_test_class(tap(schema=schema(x=nullable("object")), rows=rows(x="{}")))
TestTwoKinds = get_tap_test_class(
    tap(
        schema=schema(x={"anyOf": [{"type": "object"}, {"type": ["number", "null"]}]}),
        rows=[{"id": 1, "x": {"y": 1}}, {"id": 2, "x": 2.5}, {"id": 3, "x": None}],
    )
)
TestWrongDate = get_tap_test_class(
    tap(schema=schema(x=nullable("string", format="date-time")), rows=rows(x="yesterday"))
)
TestWrongFormat = get_tap_test_class(
    tap(schema=schema(x=nullable("string", format="ipv4")), rows=rows(x="1.2.3.4.5"))
)
TestWrongDeepInside = get_tap_test_class(
    tap(
        schema=schema(
            a=nullable("array", items={"type": "object", "properties": {"n": {"minimum": 3}}})
        ),
        rows=rows(a=[{"n": 9}, {"n": 1}, {"n": 2}]),
    )
)
TestOneOf = get_tap_test_class(
    tap(schema=schema(x={"oneOf": [{"type": "integer"}, {"type": "null"}]}), rows=rows(x=None))
)
TestNull = get_tap_test_class(tap(schema=schema(x={"type": "string"}), rows=rows(x=None)))
TestRequired = get_tap_test_class(
    tap(schema={**schema(x={"type": "string"}), "required": ["x"]}, rows=rows())
)
TestUnknown = get_tap_test_class(
    tap(schema={**schema(), "additionalProperties": True}, rows=rows(more=1))
)
TestKeyMissing = get_tap_test_class(
    tap(schema=schema(key=nullable("string")), rows=rows(), primary_keys=("key",))
)
TestKeyNull = get_tap_test_class(
    tap(schema=schema(key=nullable("string")), rows=rows(key=None), primary_keys=("key",))
)
TestKeyTwice = get_tap_test_class(tap(rows=(GOOD, GOOD)))
TestNoKey = get_tap_test_class(tap(primary_keys=()))
TestBrokenSchema = get_tap_test_class(
    tap(schema={**schema(x=nullable("string", minLength=-1))}, rows=rows(x="a"))
)
TestNoStreams = get_tap_test_class(create_tap())
TestTapAlone = get_tap_test_class(
    tap(), include_stream_tests=False, include_stream_attribute_tests=False
)


class Failing(Table):
    def get_records(self, context):
        yield dict(GOOD)
        raise RuntimeError("the source is gone")


TestFailing = get_tap_test_class(create_tap(Failing))


class Printing(Table):
    def get_records(self, context):
        print("reading")
        yield from super().get_records(context)


TestPrinting = get_tap_test_class(create_tap(Printing))


class Parent(Table):
    name = "parents"

    def get_child_context(self, record, context):
        return {"parent": record["id"]}


class Child(Table):
    name = "children"
    parent_stream_type = Parent
    replication_key = "at"
    primary_keys = ("parent", "id")
    schema = schema(at={"type": "string", "format": "date-time"}, parent={"type": "integer"})

    def get_records(self, context):
        for number in range(400):
            stamp = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(days=number)
            yield {"id": number, "at": stamp.isoformat()}


class Sliced(Child):
    name = "slices"
    parent_stream_type = None
    partitions = [{"parent": 1}, {"parent": 2}]


TestFamily = get_tap_test_class(
    create_tap(Parent, Child, Sliced), suite_config=SuiteConfig(max_records_limit=20)
)
MAPS = {"things": {"twice": "int(id) * 2", "note": None, "__filter__": "id > 1"}}
TestMapped = get_tap_test_class(tap(), config={"stream_maps": MAPS})


class TapIsNamed(TapTestTemplate):
    name = "is_named"

    def setup(self):
        self.resource.append("setup")

    def test(self):
        self.resource.append("test")
        assert self.tap.name == "tap-of"
        assert self.id == "tap__is_named"

    def validate(self):
        assert self.resource == ["setup", "test"]

    def teardown(self):
        self.resource.append("teardown")


class StreamIsSmall(StreamTestTemplate):
    name = "is_small"

    def test(self):
        assert len(self.stream_records) < 10
        assert self.id == "things__is_small"


class AttributeIsShort(AttributeTestTemplate):
    name = "is_short"

    def test(self):
        assert all(len(str(value)) < 40 for value in self.non_null_attribute_values)
        assert self.id == f"things__{self.attribute_name}__is_short"

    @classmethod
    def evaluate(cls, stream, property_name, property_schema):
        return property_name in {"at", "day"}


SUITES = [
    SingerTestSuite(kind="tap", tests=[TapIsNamed]),
    SingerTestSuite(kind="tap_stream", tests=[StreamIsSmall]),
    SingerTestSuite(kind="tap_stream_attribute", tests=[AttributeIsShort]),
]
Standard = get_tap_test_class(
    tap(),
    custom_suites=list(SUITES),
    include_tap_tests=False,
    suite_config=SuiteConfig(max_records_limit=1),
)


class TestOwn(Standard):
    """A subclass with its own fixtures and tests, as tap authors write it."""

    @pytest.fixture
    def resource(self):
        events = []
        yield events
        assert events == [] or events[-1] == "teardown"

    def test_tap_stream_returns_record(self, config, resource, runner, stream):
        assert config.max_records_limit == 1
        assert len(runner.records[stream.name]) == 1
        super().test_tap_stream_returns_record(config, resource, runner, stream)

    @pytest.mark.skip(reason="known")
    def test_tap_stream_attribute_not_null(self, stream, attribute_name):
        raise AssertionError

    def test_something_else(self, runner):
        assert runner.schema_messages[0]["stream"] == "things"


class TestSuitesApart:
    @pytest.mark.parametrize("number", range(6))
    def test_legacy(self, number):
        get_standard_tap_tests(tap(), config={})[number]()

    @pytest.mark.parametrize("number", range(6))
    def test_legacy_finds_keys_that_are_no_properties(self, number):
        wrong = tap(
            primary_keys=("no_key",),
            replication_key="no_replication_key",
            state_partitioning_keys=["no_partition"],
        )
        get_standard_tap_tests(wrong)[number]()
