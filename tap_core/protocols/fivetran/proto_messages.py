"""Protobuf message classes of Fivetran's interface, built from `proto_descriptors`.

Each class is built at its first use, in a separate descriptor pool, so that other packages with
the same message names, such as Fivetran's, do not conflict. Every message is an attribute of this
module under its name. Works with protobuf 4.25 to 7.
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

__all__ = ["build_file_descriptors", "rpcs"]

_Of: Final = descriptor_pb2.FieldDescriptorProto
_TIMESTAMP: Final = ".google.protobuf.Timestamp"
_SCALARS: Final = {
    "bool": _Of.TYPE_BOOL,
    "bytes": _Of.TYPE_BYTES,
    "double": _Of.TYPE_DOUBLE,
    "float": _Of.TYPE_FLOAT,
    "int32": _Of.TYPE_INT32,
    "int64": _Of.TYPE_INT64,
    "string": _Of.TYPE_STRING,
    "uint32": _Of.TYPE_UINT32,
}
_ENUMS: Final = frozenset(enum.__name__ for file in FILES for enum in file.enums)


def __getattr__(name: str) -> Any:
    """Return the protobuf message class with this name. Each class is created once."""
    try:
        described = _pool().FindMessageTypeByName(f"{PACKAGE}.{name}")
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return globals().setdefault(name, message_factory.GetMessageClass(described))


def rpcs(service: str) -> Mapping[str, Rpc]:
    """Return the methods of a gRPC service by name.

    Raises:
        KeyError: The service is unknown.
    """
    return {name: calls for file in FILES for name, calls in file.services.items()}[service]


def build_file_descriptors() -> Iterator[Any]:
    """Yield the descriptor of each ``.proto`` file of Fivetran. Imported files come first."""
    return map(_file, FILES)


@cache
def _pool() -> Any:
    """Return a protobuf descriptor pool with only the messages of Fivetran's interface."""
    pool: Any = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for proto in build_file_descriptors():
        pool.AddSerializedFile(proto.SerializeToString())
    return pool


def _file(file: ProtoFile) -> Any:
    proto: Any = descriptor_pb2.FileDescriptorProto(
        name=file.name, package=PACKAGE, syntax="proto3", dependency=file.imports
    )
    for enum in file.enums:
        added = proto.enum_type.add(name=enum.__name__)
        for member in enum:
            added.value.add(name=member.name, number=member.value)
    for name, message in file.messages.items():
        _fill(proto.message_type.add(name=name), message)
    for name, calls in file.services.items():
        added = proto.service.add(name=name)
        for rpc, told in calls.items():
            added.method.add(
                name=rpc,
                input_type=f".{PACKAGE}.{told.request}",
                output_type=f".{PACKAGE}.{told.response}",
                server_streaming=told.streams,
            )
    return proto


def _fill(proto: Any, message: Message) -> None:
    """Add the fields of a message to its descriptor ``proto``.

    Protobuf implements each ``optional`` field with a synthetic oneof, and requires the real oneofs
    to come before these.
    """
    groups = list(dict.fromkeys(field.oneof for field in message if field.oneof))
    groups += [_own_group(field) for field in message if field.label == "optional"]
    for group in groups:
        proto.oneof_decl.add(name=group)
    for field in message:
        added = proto.field.add(name=field.name, number=field.number, label=_Of.LABEL_OPTIONAL)
        if field.label == "map":
            _set_map(proto, added, field)
        else:
            _set_kind(added, field.kind)
        if field.label in {"repeated", "map"}:
            added.label = _Of.LABEL_REPEATED
        elif field.label == "optional":
            added.proto3_optional = True
            added.oneof_index = groups.index(_own_group(field))
        elif field.oneof:
            added.oneof_index = groups.index(field.oneof)


def _own_group(field: Field) -> str:
    return f"_{field.name}"


def _set_map(proto: Any, added: Any, field: Field) -> None:
    """Define a map field.

    Protobuf encodes it as a list of messages, each with a key and a value.
    """
    words = field.name.split("_")
    entry = proto.nested_type.add(name=f"{''.join(word.capitalize() for word in words)}Entry")
    entry.options.map_entry = True
    key = entry.field.add(name="key", number=1, label=_Of.LABEL_OPTIONAL)
    value = entry.field.add(name="value", number=2, label=_Of.LABEL_OPTIONAL)
    _set_kind(key, "string")
    _set_kind(value, field.kind)
    added.type = _Of.TYPE_MESSAGE
    added.type_name = f".{PACKAGE}.{proto.name}.{entry.name}"


def _set_kind(added: Any, kind: str) -> None:
    if kind in _SCALARS:
        added.type = _SCALARS[kind]
    else:
        added.type = _Of.TYPE_ENUM if kind in _ENUMS else _Of.TYPE_MESSAGE
        added.type_name = _TIMESTAMP if kind == "Timestamp" else f".{PACKAGE}.{kind}"
