"""Protobuf message classes of Fivetran's Partner SDK, built from `proto_descriptors`.

Every message class is an attribute of this module, such as ``SchemaResponse``. It is built at first
use, in a separate descriptor pool, so that packages with the same message names do not conflict.
Works with protobuf 4.25 to 7.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from tap_core.protocols.fivetran.proto_descriptors import (
    FILES,
    PACKAGE,
    Field,
    Message,
    ProtoFile,
    Rpc,
)

__all__ = ["build_file_descriptors", "get_rpcs"]

_FieldProto: Final = descriptor_pb2.FieldDescriptorProto
_TIMESTAMP: Final = ".google.protobuf.Timestamp"
_SCALARS: Final = {
    "bool": _FieldProto.TYPE_BOOL,
    "bytes": _FieldProto.TYPE_BYTES,
    "double": _FieldProto.TYPE_DOUBLE,
    "float": _FieldProto.TYPE_FLOAT,
    "int32": _FieldProto.TYPE_INT32,
    "int64": _FieldProto.TYPE_INT64,
    "string": _FieldProto.TYPE_STRING,
    "uint32": _FieldProto.TYPE_UINT32,
}
_ENUMS: Final = frozenset(enum.__name__ for file in FILES for enum in file.enums)


def __getattr__(name: str) -> Any:
    """Return the protobuf message class with this name, such as ``SchemaResponse``.

    Raises:
        AttributeError: Fivetran's Partner SDK has no such message.
    """
    try:
        descriptor = _get_pool().FindMessageTypeByName(f"{PACKAGE}.{name}")
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return globals().setdefault(name, message_factory.GetMessageClass(descriptor))


def get_rpcs(service: str) -> Mapping[str, Rpc]:
    """Return the methods of a gRPC service, such as "SourceConnector", by method name.

    Raises:
        KeyError: The service is unknown.
    """
    return {name: calls for file in FILES for name, calls in file.services.items()}[service]


def build_file_descriptors() -> Iterator[Any]:
    """Yield a protobuf descriptor for each of Fivetran's ``.proto`` files, imported files first."""
    return map(_build_file, FILES)


@cache
def _get_pool() -> Any:
    """Return the protobuf descriptor pool with the messages of Fivetran's Partner SDK."""
    pool: Any = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for proto in build_file_descriptors():
        pool.AddSerializedFile(proto.SerializeToString())
    return pool


def _build_file(file: ProtoFile) -> Any:
    proto: Any = descriptor_pb2.FileDescriptorProto(
        name=file.name, package=PACKAGE, syntax="proto3", dependency=file.imports
    )
    for enum in file.enums:
        added = proto.enum_type.add(name=enum.__name__)
        for member in enum:
            added.value.add(name=member.name, number=member.value)
    for name, message in file.messages.items():
        _add_fields(proto.message_type.add(name=name), message)
    for service, calls in file.services.items():
        added = proto.service.add(name=service)
        for name, rpc in calls.items():
            added.method.add(
                name=name,
                input_type=f".{PACKAGE}.{rpc.request}",
                output_type=f".{PACKAGE}.{rpc.response}",
                server_streaming=rpc.streams,
            )
    return proto


def _add_fields(proto: Any, message: Message) -> None:
    """Define the fields of a protobuf message, and their oneofs, in its descriptor ``proto``."""
    # Each optional field needs a synthetic oneof. These must come after the real oneofs.
    oneofs = list(dict.fromkeys(field.oneof for field in message if field.oneof))
    oneofs += [_name_synthetic_oneof(field) for field in message if field.label == "optional"]
    for oneof in oneofs:
        proto.oneof_decl.add(name=oneof)
    for field in message:
        added = proto.field.add(
            name=field.name, number=field.number, label=_FieldProto.LABEL_OPTIONAL
        )
        if field.label == "map":
            _set_map(proto, added, field)
        else:
            _set_type(added, field.kind)
        if field.label in {"repeated", "map"}:
            added.label = _FieldProto.LABEL_REPEATED
        elif field.label == "optional":
            added.proto3_optional = True
            added.oneof_index = oneofs.index(_name_synthetic_oneof(field))
        elif field.oneof:
            added.oneof_index = oneofs.index(field.oneof)


def _name_synthetic_oneof(field: Field) -> str:
    return f"_{field.name}"


def _set_map(proto: Any, added: Any, field: Field) -> None:
    """Define a map field: a repeated message with a key and a value, as protobuf encodes maps.

    Args:
        proto: Descriptor of the message that has the field.
        added: Descriptor of the field.
        field: Name and type of the field.
    """
    parts = field.name.split("_")
    entry = proto.nested_type.add(name=f"{''.join(word.capitalize() for word in parts)}Entry")
    entry.options.map_entry = True
    key = entry.field.add(name="key", number=1, label=_FieldProto.LABEL_OPTIONAL)
    value = entry.field.add(name="value", number=2, label=_FieldProto.LABEL_OPTIONAL)
    _set_type(key, "string")
    _set_type(value, field.kind)
    added.type = _FieldProto.TYPE_MESSAGE
    added.type_name = f".{PACKAGE}.{proto.name}.{entry.name}"


def _set_type(added: Any, kind: str) -> None:
    if kind in _SCALARS:
        added.type = _SCALARS[kind]
    else:
        added.type = _FieldProto.TYPE_ENUM if kind in _ENUMS else _FieldProto.TYPE_MESSAGE
        added.type_name = _TIMESTAMP if kind == "Timestamp" else f".{PACKAGE}.{kind}"
