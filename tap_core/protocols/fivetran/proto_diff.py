"""Command `tap-core fivetran-protos DIR`: compare `proto_descriptors` with Fivetran's files.

Every added, removed or changed field, message, enum value or method is printed as one line. Only
the wire format counts: comments, options and order are ignored. Fivetran's ``.proto`` files are not
copied.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2

from tap_core.protocols.fivetran.proto_descriptors import FILES, PACKAGE
from tap_core.protocols.fivetran.proto_messages import build_file_descriptors
from tap_core.redaction import redact_line, write_to_stderr

__all__ = ["compare", "differences"]

_NO_COMPILER: Final = (
    "The .proto files cannot be compiled: grpcio-tools is not installed. Install it with:"
    " pip install grpcio-tools"
)

_FieldProto: Final = descriptor_pb2.FieldDescriptorProto


class _ProtoFilesError(Exception):
    """Raised if the ``.proto`` files to compare with are missing or cannot be compiled."""


def compare(folder: Path) -> int:
    """Print the differences between this package's gRPC messages and Fivetran's ``.proto`` files.

    ``folder`` contains Fivetran's files. Return the exit code: 0 without differences, 1 with
    differences, 2 on an error.
    """
    try:
        theirs = _compile_files(_check_folder(folder))
    except _ProtoFilesError as error:
        write_to_stderr(f"{redact_line(str(error))}\n")
        return 2
    lines = list(differences(build_file_descriptors(), theirs))
    for line in lines or ["No difference."]:
        print(line)  # noqa: T201  (the command's output)
    return 1 if lines else 0


def differences(ours: Iterable[Any], theirs: Iterable[Any]) -> Iterator[str]:
    """Yield a line for each difference between two sets of protobuf file descriptors.

    An example is "missing here: field Table.comment (4, string)".

    Args:
        ours: Descriptors of this package's messages.
        theirs: Descriptors compiled from Fivetran's ``.proto`` files.
    """
    here, there = dict(_describe_files(ours)), dict(_describe_files(theirs))
    for name in sorted({*here, *there}):
        if name not in here:
            yield f"missing here: {name} ({there[name]})"
        elif name not in there:
            yield f"not in Fivetran's files: {name} ({here[name]})"
        elif here[name] != there[name]:
            yield f"different: {name} ({here[name]} here, {there[name]} in Fivetran's files)"


def _describe_files(files: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for file in files:
        if file.package != PACKAGE:
            continue
        yield from _describe_enums(file.enum_type)
        yield from _describe_messages(file.message_type)
        for service in file.service:
            for rpc in service.method:
                request = "stream " * rpc.client_streaming + _strip_package(rpc.input_type)
                response = "stream " * rpc.server_streaming + _strip_package(rpc.output_type)
                yield f"rpc {service.name}.{rpc.name}", f"{request} to {response}"


def _describe_enums(enums: Iterable[Any], outer: str = "") -> Iterator[tuple[str, str]]:
    for enum in enums:
        for value in enum.value:
            yield f"value {outer}{enum.name}.{value.name}", f"{value.number}"


def _describe_messages(messages: Iterable[Any], outer: str = "") -> Iterator[tuple[str, str]]:
    for message in messages:
        name = f"{outer}{message.name}"
        yield f"message {name}", "map" if message.options.map_entry else "message"
        for field in message.field:
            yield f"field {name}.{field.name}", _describe_field(message, field)
        yield from _describe_messages(message.nested_type, f"{name}.")
        yield from _describe_enums(message.enum_type, f"{name}.")


def _describe_field(message: Any, field: Any) -> str:
    """Return number, label, type and oneof of a protobuf field, such as "3, repeated string"."""
    kind = (
        _strip_package(field.type_name) or _FieldProto.Type.Name(field.type)[len("TYPE_") :].lower()
    )
    parts = [f"{field.number},"]
    if field.proto3_optional:
        parts.append("optional")
    elif field.label == _FieldProto.LABEL_REPEATED:
        parts.append("repeated")
    parts.append(kind)
    if field.HasField("oneof_index") and not field.proto3_optional:
        parts.append(f"in oneof {message.oneof_decl[field.oneof_index].name}")
    return " ".join(parts)


def _strip_package(name: str) -> str:
    return name.removeprefix(".").removeprefix(f"{PACKAGE}.")


def _check_folder(folder: Path) -> Path:
    """Check that a folder contains Fivetran's ``.proto`` files, and return the folder.

    Raises:
        _ProtoFilesError: A file is missing.
    """
    names = [file.name for file in FILES]
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise _ProtoFilesError(
            f"{folder} is not a checkout of Fivetran's partner SDK: it has no {missing[0]}."
        )
    return folder


def _compile_files(folder: Path) -> Sequence[Any]:
    """Compile the ``.proto`` files in a folder and return their file descriptors.

    Raises:
        _ProtoFilesError: The compiler is not installed, or it rejects the files.
    """
    try:
        import grpc_tools
        from grpc_tools import protoc
    except ImportError as error:
        raise _ProtoFilesError(_NO_COMPILER) from error
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch, "descriptors")
        known = Path(grpc_tools.__file__).parent / "_proto"
        sources = sorted(path.name for path in folder.glob("*.proto"))
        options = [
            f"--proto_path={folder}",
            f"--proto_path={known}",
            f"--descriptor_set_out={output}",
        ]
        if protoc.main(["protoc", *options, *sources]):  # the reason is on standard error
            raise _ProtoFilesError(f"The .proto files in {folder} cannot be compiled.")
        files: Sequence[Any] = descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes()).file
    return files
