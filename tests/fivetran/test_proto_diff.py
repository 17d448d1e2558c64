"""The comparison of the SDK's message descriptions with Fivetran's proto files."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from tap_core import cli
from tap_core.protocols.fivetran.proto_diff import differences
from tap_core.protocols.fivetran.proto_messages import build_file_descriptors


def compiled_files() -> list[descriptor_pb2.FileDescriptorProto]:
    """Return Fivetran's files as a proto compiler would return them."""
    data = [file.SerializeToString() for file in build_file_descriptors()]
    return [descriptor_pb2.FileDescriptorProto.FromString(file) for file in data]


def list_differences(changed) -> list[str]:
    return list(differences(build_file_descriptors(), changed))


def item_named(items, name: str):
    return next(item for item in items if item.name == name)


def test_equal_descriptions_have_no_differences() -> None:
    assert list_differences(compiled_files()) == []


def test_compiler_options_and_other_packages_are_ignored() -> None:
    changed = compiled_files()
    for file in changed:
        file.options.go_package = "x"
        for message in file.message_type:
            for field in message.field:
                field.json_name = "x"
    older = descriptor_pb2.FileDescriptorProto(name="v1.proto", package="fivetran_sdk")
    older.message_type.add(name="LogEntry")
    assert list_differences([*changed, older]) == []


def test_additions_by_fivetran_are_reported_as_missing() -> None:
    changed = compiled_files()
    common = changed[0]
    common.message_type.add(name="Tag").field.add(name="text", number=1, type=9, label=1)
    item_named(common.enum_type, "DataType").value.add(name="GEOMETRY", number=16)
    changed[2].service[0].method.add(
        name="Vacuum", input_type=".fivetran_sdk.v2.Tag", output_type=".fivetran_sdk.v2.Task"
    )
    assert list_differences(changed) == [
        "missing here: field Tag.text (1, string)",
        "missing here: message Tag (message)",
        "missing here: rpc DestinationConnector.Vacuum (Tag to Task)",
        "missing here: value DataType.GEOMETRY (16)",
    ]


def test_changes_and_removals_by_fivetran_are_reported_with_both_versions() -> None:
    changed = compiled_files()
    column = item_named(changed[0].message_type, "Column")
    item_named(column.field, "primary_key").number = 5
    params = item_named(column.field, "params")
    params.proto3_optional = False
    params.ClearField("oneof_index")
    item_named(item_named(changed[0].message_type, "Table").field, "columns").label = 1
    failure = item_named(item_named(changed[0].message_type, "TestResponse").field, "failure")
    failure.type = 12
    failure.ClearField("oneof_index")
    del changed[1].message_type[-1]
    changed[1].service[0].method[1].input_type = ".fivetran_sdk.v2.Task"
    changed[1].service[0].method[1].output_type = ".fivetran_sdk.v2.Task"
    changed[1].service[0].method[3].server_streaming = False
    sides = [line.removesuffix(" in Fivetran's files)") for line in list_differences(changed)]
    assert sides.pop().endswith("to stream UpdateResponse here, UpdateRequest to UpdateResponse")
    assert sides == [
        "not in Fivetran's files: field Checkpoint.state_json (1, string)",
        "different: field Column.params (4, optional DataTypeParams here, 4, DataTypeParams",
        "different: field Column.primary_key (3, bool here, 5, bool",
        "different: field Table.columns (2, repeated Column here, 2, Column",
        "different: field TestResponse.failure (2, string in oneof response here, 2, bytes",
        "not in Fivetran's files: message Checkpoint (message)",
        "different: rpc SourceConnector.Test (TestRequest to TestResponse here, Task to Task",
    ]


def test_folder_without_proto_files_is_an_error(tmp_path: Path, capsys) -> None:
    assert cli.main(["fivetran-protos", str(tmp_path)]) == 2
    assert "it has no common.proto" in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "code"), [([], 2), (["--help"], 0), (["a", "b"], 2)])
def test_command_prints_its_usage(arguments: list[str], code: int, capsys) -> None:
    assert cli.main(["fivetran-protos", *arguments]) == code
    assert "Usage: tap-core fivetran-protos DIR" in "".join(capsys.readouterr())


COMMON = """
syntax = "proto3";
package fivetran_sdk.v2;
import "google/protobuf/timestamp.proto";
message Task { string message = 1; google.protobuf.Timestamp at = 2; }
"""


def test_proto_files_are_compiled_or_the_compiler_to_install_is_named(
    tmp_path: Path, capsys
) -> None:
    for name in ("common.proto", "connector_sdk.proto", "destination_sdk.proto"):
        text = COMMON if name == "common.proto" else 'syntax = "proto3"; package other;'
        (tmp_path / name).write_text(text)
    code = cli.main(["fivetran-protos", str(tmp_path)])
    captured = capsys.readouterr()
    if code == 2:
        assert "pip install grpcio-tools" in captured.err
        pytest.skip("grpcio-tools is not installed")
    lines = captured.out.splitlines()
    assert "missing here: field Task.at (2, google.protobuf.Timestamp)" in lines
    assert "not in Fivetran's files: message Warning (message)" in lines
    assert "not in Fivetran's files: field Task.message (1, string)" not in lines
