"""Encoding of records as protobuf messages, checked by decoding them with protobuf."""

from __future__ import annotations

import base64
import json
import math
import uuid
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.events import SchemaEvent, StreamId
from tap_core.exceptions import DataError
from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.columns import TableId, build_columns, resolve_properties
from tap_core.protocols.fivetran.enums import RecordType
from tap_core.protocols.fivetran.record_encoder import RecordEncoder, StreamSpec
from tap_core.protocols.fivetran.varint_encoding import encode_varint
from tap_core.typing.inspect import TypeConformanceLevel
from tests.fivetran.calls import decode_value

SCHEMAS: dict[str, dict[str, Any]] = {
    "bool": {"type": "boolean"},
    "short": {"type": "integer", "minimum": 0, "maximum": 2**15 - 1},
    "int": {"type": "integer", "minimum": -70_000, "maximum": 2**31 - 1},
    "long": {"type": "integer"},
    "double": {"type": "number"},
    "naive_date": {"type": "string", "format": "date"},
    "naive_datetime": {"format": "date-time", "airbyte_type": "timestamp_without_timezone"},
    "utc_datetime": {"type": "string", "format": "date-time"},
    "decimal": {"type": "string", "format": "x-singer.decimal", "precision": 10, "scale": 2},
    "binary": {"type": "string", "contentEncoding": "base64"},
    "string": {"type": "string"},
    "json": {"type": "object"},
    "xml": {"type": "string", "contentMediaType": "text/xml"},
}
SCHEMAS["naive_datetime"]["type"] = "string"


def encoder(
    properties: Mapping[str, Any], keys: tuple[str, ...] = (), schema: str | None = None
) -> RecordEncoder:
    declared = {"properties": dict(properties)}
    columns = build_columns(SchemaEvent(StreamId("rows"), declared, keys))
    level = TypeConformanceLevel.RECURSIVE
    source = StreamSpec("rows", resolve_properties(declared), level, lambda _names: None)
    return RecordEncoder(TableId("table", schema), columns, source)


def decode(body: bytes) -> Any:
    [record] = proto_messages.Records.FromString(body).records
    return record


def encode_and_decode(record_encoder: RecordEncoder, record: dict[str, Any]) -> Any:
    """Return the decoded record. The fast and the careful encoder must agree on it."""
    careful = record_encoder.encode_upsert(dict(record))
    assert record_encoder.serialize(record) == careful
    return decode(careful)


def encode_value(kind: str, value: Any) -> Any:
    encoded = encode_and_decode(encoder({"x": SCHEMAS[kind]}), {"x": value}).data["x"]
    assert encoded.WhichOneof("inner") == ("null" if decode_value(encoded) is None else kind)
    return decode_value(encoded)


def instant(text: str) -> tuple[int, int]:
    moment = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return moment // timedelta(seconds=1), moment % timedelta(seconds=1) // timedelta(
        microseconds=1
    ) * 1000


WHOLE = st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)


class Scalar:
    """A number of a type that another package defines, such as NumPy."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __str__(self) -> str:
        return str(self.value)


VALUES = {
    "bool": st.booleans(),
    "short": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": WHOLE,
    "double": st.floats(allow_nan=False),
    "decimal": st.decimals(-(10**8) + 1, 10**8 - 1, places=2),
    "binary": st.binary().map(lambda data: base64.b64encode(data).decode()),
    "string": st.text(),
    "json": st.recursive(
        st.none() | st.booleans() | WHOLE | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    ).filter(lambda value: value is not None),
    "xml": st.text(max_size=400),
    "naive_date": st.dates().map(str),
    "utc_datetime": st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
}


@given(st.fixed_dictionaries({}, optional={k: v | st.none() for k, v in VALUES.items()}))
def test_protobuf_reads_encoded_records(record):
    """F13, F14: every record has every column, each as the type of its column."""
    message = encode_and_decode(encoder(SCHEMAS, schema="a"), record)
    assert (message.schema_name, message.table_name, message.type) == ("a", "table", 0)
    assert message.data.keys() == SCHEMAS.keys()
    reparsed = proto_messages.Record.FromString(message.SerializeToString())
    assert reparsed == message
    for name, encoded in message.data.items():
        expected = record.get(name)
        assert encoded.WhichOneof("inner") == ("null" if expected is None else name)
        if name in {"bool", "short", "int", "long", "double", "string", "xml"}:
            assert decode_value(encoded) == expected
        elif name == "decimal" and expected is not None:
            assert Decimal(encoded.decimal) == expected
        elif name == "json" and expected is not None:
            assert json.loads(encoded.json) == json.loads(json.dumps(expected))
        elif name == "binary" and expected is not None:
            assert encoded.binary == base64.b64decode(expected)
        elif name == "utc_datetime" and expected is not None:
            assert decode_value(encoded) == instant(expected.replace("Z", "+00:00"))
        elif name == "naive_date" and expected is not None:
            assert decode_value(encoded) == instant(f"{expected}T00:00:00+00:00")


@given(st.integers(-(2**63), 2**64 - 1))
def test_numbers_are_encoded_as_protobuf_encodes_them(value):
    remaining, groups = value % 2**64, []
    while remaining >= 128:
        groups.append(remaining % 128 + 128)
        remaining //= 128
    assert encode_varint(value) == bytes([*groups, remaining])


@pytest.mark.parametrize(
    "kind, value, expected",
    [
        ("bool", 1, True),
        ("bool", 0.0, False),
        ("bool", " TRUE", True),
        ("bool", b"\x00", False),
        ("short", -(2**15), -(2**15)),
        ("long", "00042", 42),
        ("long", 7.0, 7),
        ("long", Decimal("1e3"), 1000),
        ("long", -(2**63), -(2**63)),
        ("double", 3, 3.0),
        ("double", "1.5e-7", 1.5e-7),
        ("double", Decimal("0.1"), 0.1),
        ("double", "-Infinity", -math.inf),
        ("double", 5e-324, 5e-324),
        ("double", Scalar(0.5), 0.5),
        ("long", Scalar(5), 5),
        ("bool", Scalar(True), True),  # noqa: FBT003
        ("decimal", "-0", "0.00"),
        ("decimal", 1e3, "1000.00"),
        ("decimal", 0.1 + 0.2, "0.30"),
        ("decimal", -0.9999999999999999, "-1.00"),
        ("decimal", "12345678.90000", "12345678.90"),
        ("decimal", Decimal("1E+5"), "100000.00"),
        ("naive_date", "0001-01-01", (-62135596800, 0)),
        ("naive_date", date(9999, 12, 31), (253402214400, 0)),
        ("naive_date", "1582-10-10T00:00:00Z", (-12219724800, 0)),
        ("utc_datetime", "2024-01-08T18:52:07.754685370Z", (1704739927, 754685370)),
        ("utc_datetime", "2024-01-08T18:52:07.7546853709Z", (1704739927, 754685370)),
        ("utc_datetime", "2024-01-08T20:52:07+02:00", (1704739927, 0)),
        ("utc_datetime", "2024-01-08 18:52:07", (1704739927, 0)),
        ("utc_datetime", "2024-01-08T18:52:07.5+00:00", (1704739927, 500000000)),
        ("utc_datetime", "2024-01-08", (1704672000, 0)),
        ("utc_datetime", "2021-01-02T0:00:00Z", (1609545600, 0)),
        ("utc_datetime", "1969-12-31T23:59:59.999999Z", (-1, 999999000)),
        ("utc_datetime", "1970-01-01T00:00:00Z", (0, 0)),
        ("utc_datetime", datetime(2024, 1, 8, 18, 52, 7, 1), (1704739927, 1000)),  # noqa: DTZ001
        ("naive_datetime", "2024-01-08T18:52:07", (1704739927, 0)),
        ("utc_datetime", "9999-12-31T23:59:59.999999Z", (253402300799, 999999000)),
        ("binary", b"\x00\xff", b"\x00\xff"),
        ("binary", "AP8=\n", b"\x00\xff"),
        ("string", 5, "5"),
        ("string", True, "true"),
        ("string", 1.5, "1.5"),
        ("string", math.nan, None),
        ("string", {"a": [1, None]}, '{"a":[1,null]}'),
        ("string", b"\x0a", "0a"),
        ("string", "half \ud83d", "half ?"),
        ("string", time(10, 15), "10:15:00"),
        ("string", uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        ("json", {"n": 2**70, "d": Decimal("1.10")}, '{"n":1180591620717411303424,"d":1.10}'),
        ("json", {"at": datetime(2024, 1, 8)}, '{"at":"2024-01-08T00:00:00"}'),  # noqa: DTZ001
        ("json", "text", '"text"'),
        ("json", {"x": "half \ud83d", "y": math.inf}, '{"x":"half ?","y":null}'),
    ],
)
def test_other_representations_of_a_value_are_converted(kind, value, expected):
    assert encode_value(kind, value) == expected


@pytest.mark.parametrize(
    "places, value, expected",
    [
        (2, 12345678901.449999, "12345678901.45"),
        (4, 123456789.12340001, "123456789.1234"),
        (6, 1234567890.1234572, None),
        (2, 1234567890123.456, None),
        (0, 1234567890123456.5, None),
    ],
)
def test_a_float_is_not_rounded_before_the_last_place_of_its_decimal(places, value, expected):
    schema = {"type": "number", "multipleOf": float(f"1e-{places}")}
    record_encoder = encoder({"x": schema})
    if expected is None:
        with pytest.raises(DataError, match="does not fit its column"):
            record_encoder.serialize({"x": value})
    else:
        assert encode_and_decode(record_encoder, {"x": value}).data["x"].decimal == expected


def test_nan_is_a_double():
    assert math.isnan(encode_value("double", math.nan))
    assert math.isnan(encode_value("double", "nan"))


@pytest.mark.parametrize(
    "kind, value",
    [
        ("bool", 2),
        ("bool", "yes, please"),
        ("short", 2**15),
        ("int", "2147483648"),
        ("long", 2**63),
        ("long", 1.5),
        ("long", True),
        ("long", "1_000"),
        ("long", Decimal("1e999999999")),
        ("long", math.nan),
        ("double", "1e400"),
        ("double", 10**400),
        ("double", False),
        ("double", "twelve"),
        ("decimal", "123456789"),
        ("decimal", "0.001"),
        ("decimal", 0.125),
        ("decimal", 99999999.99999999),
        ("decimal", 0.3000000000000009),
        ("decimal", math.inf),
        ("naive_date", "2024-01-01T00:00:01Z"),
        ("naive_date", "2024-01-01T00:00:00+02:00"),
        ("naive_date", "2024-13-01"),
        ("naive_date", 19_000),
        ("utc_datetime", "yesterday"),
        ("utc_datetime", 1_704_739_927),
        ("utc_datetime", "0000-01-01T00:00:00Z"),
        ("binary", "no base64!"),
        ("binary", 5),
    ],
)
def test_value_of_another_type_is_refused_and_not_shown(kind, value):
    """F3, F13: the error names the stream and the column but not the value."""
    record_encoder = encoder({"x": SCHEMAS[kind]})
    for encode in (record_encoder.encode_upsert, record_encoder.serialize):
        with pytest.raises(DataError, match=r"'rows'.*'x'") as caught:
            encode({"x": value})
        assert (
            str(value) not in str(caught.value).replace("DECIMAL(10, 2)", "") or len(str(value)) < 3
        )


def test_record_without_its_key_is_refused():
    """F14: every key is present and not null."""
    record_encoder = encoder({"id": SCHEMAS["long"], "x": SCHEMAS["string"]}, keys=("id",))
    for record in ({"x": "a"}, {"id": None, "x": "a"}):
        for encode in (record_encoder.encode_upsert, record_encoder.serialize):
            with pytest.raises(DataError, match="key 'id'"):
                encode(dict(record))


def test_key_may_be_of_any_type():
    for kind, value in (("binary", b"\x00"), ("json", {"a": 1}), ("decimal", "1.5")):
        record_encoder = encoder({"x": SCHEMAS[kind]}, keys=("x",))
        assert decode_value(encode_and_decode(record_encoder, {"x": value}).data["x"]) in {
            b"\x00",
            '{"a":1}',
            "1.50",
        }


def test_delete_record_has_only_its_keys():
    record_encoder = encoder(
        {"id": SCHEMAS["long"], "x": SCHEMAS["string"], "_sdc_deleted_at": SCHEMAS["string"]},
        keys=("id",),
    )
    record = encode_and_decode(
        record_encoder, {"id": 1, "x": "a", "_sdc_deleted_at": "2024-01-01T00:00:00Z"}
    )
    assert (record.type, dict(record.data).keys()) == (RecordType.DELETE, {"id"})
    assert (
        encode_and_decode(record_encoder, {"id": 1, "_sdc_deleted_at": None}).type
        == RecordType.UPSERT
    )


def test_truncate_has_no_data():
    record_encoder = encoder({"id": SCHEMAS["long"], "x": SCHEMAS["string"], "y": {}}, keys=("id",))
    truncate = decode(record_encoder.encode_truncate())
    assert (truncate.type, len(truncate.data), truncate.table_name) == (3, 0, "table")
    assert not truncate.HasField("schema_name")


def test_unusual_column_names_are_kept():
    names = ["VALUE", "c#", "h0", "it's", 'a"b', "\n", "v", "None", "ü" * 70, ""]
    record = encode_and_decode(
        encoder(dict.fromkeys(names, SCHEMAS["string"])), {n: n for n in names}
    )
    assert {name: value.string for name, value in record.data.items()} == {n: n for n in names}


def test_record_without_declared_properties_is_one_json_column():
    record = encode_and_decode(encoder({}), {"a": [1, {"b": None}]})
    assert record.data["record"].json == '{"a":[1,{"b":null}]}'


def test_undeclared_properties_are_reported_once_per_stream():
    unmapped: list[Any] = []
    declared = {"properties": {"a": {"type": "integer"}}}
    columns = build_columns(SchemaEvent(StreamId("rows"), declared))
    level = TypeConformanceLevel.RECURSIVE
    source = StreamSpec("rows", resolve_properties(declared), level, unmapped.append)
    record_encoder = RecordEncoder(TableId("rows"), columns, source)
    assert decode(record_encoder.encode({"a": 1, "b": 2})).data.keys() == {"a"}
    assert unmapped == [("b",)]


def test_nested_values_are_conformed_to_the_schema():
    """Undeclared properties of an object are dropped, as in Singer output."""
    nested = {"type": "object", "properties": {"a": {"type": "boolean"}}}
    record = encode_and_decode(encoder({"x": nested}), {"x": {"a": 1, "b": 2}})
    assert record.data["x"].json == '{"a":true}'


def test_record_larger_than_the_message_limit_is_refused(monkeypatch):
    monkeypatch.setattr("tap_core.protocols.fivetran.record_encoder.MAX_MESSAGE_BYTES", 1_000)
    record_encoder = encoder({"x": SCHEMAS["string"]})
    with pytest.raises(DataError, match=r"1,012 bytes.*128 MB"):
        record_encoder.encode({"x": "x" * 1_000})


def test_table_may_have_1500_columns():
    record_encoder = encoder({f"c{number}": {"type": "integer"} for number in range(1_500)})
    record = encode_and_decode(record_encoder, {"c3": 3, "c1499": -1})
    assert len(record.data) == 1_500
    assert {n: decode_value(v) for n, v in record.data.items() if decode_value(v)} == {
        "c3": 3,
        "c1499": -1,
    }
