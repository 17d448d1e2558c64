"""Protobuf messages of Fivetran's interface: bytes, field presence, and imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import json_format

from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.enums import DataType, RecordType
from tap_core.protocols.fivetran.proto_descriptors import FILES, PACKAGE

ROOT = Path(__file__).resolve().parents[2]


def run(program: str) -> str:
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_record_has_the_expected_wire_format() -> None:
    """The expected bytes are written by hand."""
    value = proto_messages.ValueType(naive_date={"seconds": -86_400})
    record = proto_messages.Record(
        schema_name="s", table_name="t", type=RecordType.DELETE, data={"d": value}
    )
    answer = proto_messages.UpdateResponse(records=proto_messages.Records(records=[record]))
    date = b"\x42\x0b\x08" + b"\x80\xdd\xfa\xff\xff\xff\xff\xff\xff\x01"
    entry = b"\x0a\x01d\x12" + bytes([len(date)]) + date
    encoded = b"\x0a\x01s\x12\x01t\x18\x02\x22" + bytes([len(entry)]) + entry
    listed = b"\x0a" + bytes([len(encoded)]) + encoded
    assert answer.SerializeToString() == b"\x32" + bytes([len(listed)]) + listed


def test_every_described_message_round_trips() -> None:
    for file in FILES:
        for name, fields in file.messages.items():
            kind = getattr(proto_messages, name)
            assert kind.DESCRIPTOR.full_name == f"{PACKAGE}.{name}"
            assert kind.FromString(kind().SerializeToString()) == kind()
            assert [field.number for field in kind.DESCRIPTOR.fields] == [
                field.number for field in fields
            ]


def test_unknown_message_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="LogEntry"):
        proto_messages.LogEntry  # noqa: B018  asking is the test


def test_optional_fields_have_presence() -> None:
    """F17: an Update without a state differs from one with an empty state."""
    assert not proto_messages.UpdateRequest().HasField("state_json")
    assert proto_messages.UpdateRequest(state_json="").HasField("state_json")
    read = proto_messages.FormField.FromString(
        proto_messages.FormField(required=False).SerializeToString()
    )
    assert read.HasField("required")
    assert not read.HasField("description")
    assert read.WhichOneof("type") is None


def test_setting_one_oneof_field_clears_the_other() -> None:
    answer = proto_messages.TestResponse(success=True)
    answer.failure = "no"
    assert answer.WhichOneof("response") == "failure"
    assert not answer.success


def test_map_and_enum_fields_round_trip() -> None:
    request = proto_messages.WriteBatchRequest(keys={"/f": b"\x00\xff"})
    assert dict(proto_messages.WriteBatchRequest.FromString(request.SerializeToString()).keys) == {
        "/f": b"\x00\xff"
    }
    column = proto_messages.Column(name="c", type=DataType.NAIVE_TIME)
    assert DataType(column.type) is DataType.NAIVE_TIME
    assert json_format.MessageToDict(column) == {"name": "c", "type": "NAIVE_TIME"}


ANOTHER = """
from google.protobuf import descriptor_pb2, descriptor_pool
def add_another():
    proto = descriptor_pb2.FileDescriptorProto(
        name="common.proto", package="fivetran_sdk.v2", syntax="proto3"
    )
    message = proto.message_type.add(name="Column")
    message.field.add(name="other", number=1, type=5, label=1)
    descriptor_pool.Default().AddSerializedFile(proto.SerializeToString())
def use():
    from tap_core.protocols.fivetran import proto_messages as messages
    assert messages.Column(name="c").SerializeToString() == b"\\n\\x01c"
"""


@pytest.mark.parametrize("order", ["add_another(); use()", "use(); add_another(); use()"])
def test_another_package_with_the_same_messages_does_not_conflict(order: str) -> None:
    run(f"{ANOTHER}\n{order}")


def test_other_protocols_load_neither_grpc_nor_protobuf() -> None:
    program = """
import sys
from tap_core import Tap, Stream
from tap_core.protocols.fivetran import enums, proto_descriptors
class TapX(Tap):
    name = "tap-x"
    config_jsonschema = {"properties": {}}
    def discover_streams(self):
        return []
try:
    TapX.cli(["--discover"])
except SystemExit as done:
    assert not done.code
assert not {"grpc", "google.protobuf"} & set(sys.modules), "loaded"
"""
    assert '"streams"' in run(program)
