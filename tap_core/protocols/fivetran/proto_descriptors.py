"""Messages and gRPC methods of Fivetran's Partner SDK, with its names and numbers, as Python data.

protobuf is not needed here. Names and numbers are the wire format and must never change. Additions
by Fivetran are added here. Source: Fivetran's Partner SDK, version 2, ``common.proto``,
``connector_sdk.proto`` and ``destination_sdk.proto``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, Literal, TypeAlias

from tap_core.protocols.fivetran.enums import (
    BatchFileFormat,
    Compression,
    DataType,
    Encryption,
    RecordType,
    TextField,
)

__all__ = [
    "FILES",
    "PACKAGE",
    "Field",
    "Label",
    "Message",
    "ProtoFile",
    "Rpc",
    "TableSyncModeMigrationType",
]

PACKAGE: Final = "fivetran_sdk.v2"
"""Protobuf package of the messages, and the start of every gRPC method's path."""

Label: TypeAlias = Literal["", "optional", "repeated", "map"]


@dataclass(frozen=True, slots=True)
class Field:
    """Field of a protobuf message.

    ``kind`` is the name of its type: a protobuf scalar, a message or an enum. For a map, it is the
    type of the values, and the keys are strings.
    """

    number: int
    name: str
    kind: str
    label: Label = ""
    oneof: str = ""


Message: TypeAlias = tuple[Field, ...]
"""Fields of a protobuf message."""


@dataclass(frozen=True, slots=True)
class Rpc:
    """Method of a gRPC service: the names of its request and response messages.

    ``streams`` is True if the method returns a stream of responses.
    """

    request: str
    response: str
    streams: bool = False


@dataclass(frozen=True, slots=True)
class ProtoFile:
    """Content of one ``.proto`` file of Fivetran's Partner SDK: enums, messages and services."""

    name: str
    imports: tuple[str, ...]
    enums: tuple[type[IntEnum], ...]
    messages: Mapping[str, Message]
    services: Mapping[str, Mapping[str, Rpc]]


class TableSyncModeMigrationType(IntEnum):
    """Change of a table's sync mode, such as soft delete to history. This package ignores it."""

    SOFT_DELETE_TO_LIVE = 0
    SOFT_DELETE_TO_HISTORY = 1
    HISTORY_TO_SOFT_DELETE = 2
    HISTORY_TO_LIVE = 3
    LIVE_TO_SOFT_DELETE = 4
    LIVE_TO_HISTORY = 5


def _make_oneof(name: str, *fields: Field) -> Message:
    """Return copies of the fields as alternatives of the protobuf ``oneof`` with this name."""
    return tuple(replace(field, oneof=name) for field in fields)


def _make_string_fields(*names: str) -> Message:
    """Return a message with a string field for each name, numbered 1, 2, 3 and so on."""
    return tuple(Field(number, name, "string") for number, name in enumerate(names, 1))


_NO_FIELDS: Final[Message] = ()
_CONFIGURATION: Final = Field(1, "configuration", "string", "map")
_SCHEMA_NAME: Final = Field(2, "schema_name", "string")
_TABLE_NAME: Final = Field(3, "table_name", "string")
_TABLE: Final = Field(3, "table", "Table")
_KEYS: Final = Field(4, "keys", "bytes", "map")
_OUTCOME: Final = _make_oneof(
    "response",
    Field(1, "success", "bool"),
    Field(2, "warning", "Warning"),
    Field(3, "task", "Task"),
)

_FORM: Final[dict[str, Message]] = {
    "ConfigurationFormRequest": _NO_FIELDS,
    "ConfigurationFormResponse": (
        Field(1, "schema_selection_supported", "bool"),
        Field(2, "table_selection_supported", "bool"),
        Field(3, "fields", "FormField", "repeated"),
        Field(4, "tests", "ConfigurationTest", "repeated"),
    ),
    "FormField": (
        Field(1, "name", "string"),
        Field(2, "label", "string"),
        Field(3, "required", "bool", "optional"),
        Field(4, "description", "string", "optional"),
        *_make_oneof(
            "type",
            Field(5, "text_field", "TextField"),
            Field(6, "dropdown_field", "DropdownField"),
            Field(7, "toggle_field", "ToggleField"),
            Field(10, "conditional_fields", "ConditionalFields"),
            Field(11, "upload_field", "UploadField"),
            Field(12, "descriptive_dropdown_fields", "DescriptiveDropDownFields"),
        ),
        Field(8, "default_value", "string", "optional"),
        Field(9, "placeholder", "string", "optional"),
    ),
    "DropdownField": (Field(1, "dropdown_field", "string", "repeated"),),
    "ToggleField": _NO_FIELDS,
    "ConditionalFields": (
        Field(1, "condition", "VisibilityCondition"),
        Field(2, "fields", "FormField", "repeated"),
    ),
    "VisibilityCondition": (
        Field(1, "condition_field", "string"),
        *_make_oneof(
            "visible_when",
            Field(2, "bool_value", "bool"),
            Field(3, "string_value", "string"),
            Field(4, "empty_value", "bool"),
        ),
    ),
    "UploadField": (
        Field(1, "allowed_file_type", "string", "repeated"),
        Field(2, "max_file_size_bytes", "int32"),
    ),
    "DescriptiveDropDownFields": (
        Field(1, "descriptive_dropdown_field", "DescriptiveDropDownField", "repeated"),
    ),
    "DescriptiveDropDownField": _make_string_fields("value", "label", "description"),
    "ConfigurationTest": _make_string_fields("name", "label"),
    "TestRequest": (Field(1, "name", "string"), Field(2, "configuration", "string", "map")),
    "TestResponse": _make_oneof(
        "response", Field(1, "success", "bool"), Field(2, "failure", "string")
    ),
}

_DATA: Final[dict[str, Message]] = {
    "SchemaList": (Field(1, "schemas", "Schema", "repeated"),),
    "TableList": (Field(1, "tables", "Table", "repeated"),),
    "Schema": (Field(1, "name", "string"), Field(2, "tables", "Table", "repeated")),
    "Table": (Field(1, "name", "string"), Field(2, "columns", "Column", "repeated")),
    "Column": (
        Field(1, "name", "string"),
        Field(2, "type", "DataType"),
        Field(3, "primary_key", "bool"),
        Field(4, "params", "DataTypeParams", "optional"),
    ),
    "DataTypeParams": _make_oneof(
        "params", Field(1, "decimal", "DecimalParams"), Field(2, "string_byte_length", "int32")
    ),
    "DecimalParams": (Field(1, "precision", "uint32"), Field(2, "scale", "uint32")),
    "ValueType": _make_oneof(
        "inner",
        Field(1, "null", "bool"),
        Field(2, "bool", "bool"),
        Field(3, "short", "int32"),
        Field(4, "int", "int32"),
        Field(5, "long", "int64"),
        Field(6, "float", "float"),
        Field(7, "double", "double"),
        Field(8, "naive_date", "Timestamp"),
        Field(9, "naive_datetime", "Timestamp"),
        Field(10, "utc_datetime", "Timestamp"),
        Field(11, "decimal", "string"),
        Field(12, "binary", "bytes"),
        Field(13, "string", "string"),
        Field(14, "json", "string"),
        Field(15, "xml", "string"),
        Field(16, "naive_time", "Timestamp"),
    ),
    "Warning": _make_string_fields("message"),
    "Task": _make_string_fields("message"),
}

_CONNECTOR: Final[dict[str, Message]] = {
    "SchemaRequest": (_CONFIGURATION,),
    "SchemaResponse": (
        *_make_oneof(
            "response",
            Field(1, "schema_response_not_supported", "bool"),
            Field(2, "with_schema", "SchemaList"),
            Field(3, "without_schema", "TableList"),
        ),
        Field(4, "selection_not_supported", "bool", "optional"),
    ),
    "UpdateRequest": (
        _CONFIGURATION,
        Field(2, "selection", "Selection", "optional"),
        Field(3, "state_json", "string", "optional"),
    ),
    "Selection": _make_oneof(
        "selection",
        Field(1, "without_schema", "TablesWithNoSchema"),
        Field(2, "with_schema", "TablesWithSchema"),
    ),
    "TablesWithNoSchema": (
        Field(1, "tables", "TableSelection", "repeated"),
        Field(2, "include_new_tables", "bool"),
    ),
    "TablesWithSchema": (
        Field(1, "schemas", "SchemaSelection", "repeated"),
        Field(2, "include_new_schemas", "bool"),
    ),
    "SchemaSelection": (
        Field(1, "included", "bool"),
        Field(2, "schema_name", "string"),
        Field(3, "tables", "TableSelection", "repeated"),
        Field(4, "include_new_tables", "bool"),
    ),
    "TableSelection": (
        Field(1, "included", "bool"),
        Field(2, "table_name", "string"),
        Field(3, "columns", "bool", "map"),
        Field(4, "include_new_columns", "bool"),
    ),
    "UpdateResponse": _make_oneof(
        "operation",
        Field(1, "record", "Record"),
        Field(2, "schema_change", "SchemaChange"),
        Field(3, "checkpoint", "Checkpoint"),
        Field(4, "warning", "Warning"),
        Field(5, "task", "Task"),
        Field(6, "records", "Records"),
    ),
    "SchemaChange": _make_oneof(
        "change", Field(1, "with_schema", "SchemaList"), Field(2, "without_schema", "TableList")
    ),
    "Record": (
        Field(1, "schema_name", "string", "optional"),
        Field(2, "table_name", "string"),
        Field(3, "type", "RecordType"),
        Field(4, "data", "ValueType", "map"),
    ),
    "Records": (Field(1, "records", "Record", "repeated"),),
    "Checkpoint": _make_string_fields("state_json"),
}

_MIGRATE: Final[dict[str, Message]] = {
    "MigrateRequest": (_CONFIGURATION, Field(2, "details", "MigrationDetails")),
    "MigrateResponse": _make_oneof(
        "response",
        Field(1, "success", "bool"),
        Field(2, "unsupported", "bool"),
        Field(3, "warning", "Warning"),
        Field(4, "task", "Task"),
    ),
    "MigrationDetails": (
        *_make_string_fields("schema", "table"),
        *_make_oneof(
            "operation",
            Field(3, "drop", "DropOperation"),
            Field(4, "copy", "CopyOperation"),
            Field(5, "rename", "RenameOperation"),
            Field(6, "add", "AddOperation"),
            Field(7, "update_column_value", "UpdateColumnValueOperation"),
            Field(8, "table_sync_mode_migration", "TableSyncModeMigrationOperation"),
        ),
    ),
    "DropOperation": _make_oneof(
        "entity",
        Field(1, "drop_table", "bool"),
        Field(2, "drop_column_in_history_mode", "DropColumnInHistoryMode"),
    ),
    "DropColumnInHistoryMode": _make_string_fields("column", "operation_timestamp"),
    "CopyOperation": _make_oneof(
        "entity",
        Field(1, "copy_table", "CopyTable"),
        Field(2, "copy_column", "CopyColumn"),
        Field(3, "copy_table_to_history_mode", "CopyTableToHistoryMode"),
    ),
    "CopyTable": _make_string_fields("from_table", "to_table"),
    "CopyColumn": _make_string_fields("from_column", "to_column"),
    "CopyTableToHistoryMode": _make_string_fields("from_table", "to_table", "soft_deleted_column"),
    "RenameOperation": _make_oneof(
        "entity",
        Field(1, "rename_table", "RenameTable"),
        Field(2, "rename_column", "RenameColumn"),
    ),
    "RenameTable": _make_string_fields("from_table", "to_table"),
    "RenameColumn": _make_string_fields("from_column", "to_column"),
    "AddOperation": _make_oneof(
        "entity",
        Field(1, "add_column_in_history_mode", "AddColumnInHistoryMode"),
        Field(2, "add_column_with_default_value", "AddColumnWithDefaultValue"),
    ),
    "AddColumnInHistoryMode": (
        Field(1, "column", "string"),
        Field(2, "column_type", "DataType"),
        Field(3, "default_value", "string"),
        Field(4, "operation_timestamp", "string"),
    ),
    "AddColumnWithDefaultValue": (
        Field(1, "column", "string"),
        Field(2, "column_type", "DataType"),
        Field(3, "default_value", "string"),
    ),
    "UpdateColumnValueOperation": _make_string_fields("column", "value"),
    "TableSyncModeMigrationOperation": (
        Field(1, "type", "TableSyncModeMigrationType"),
        Field(2, "soft_deleted_column", "string", "optional"),
        Field(3, "keep_deleted_rows", "bool", "optional"),
    ),
}

_DESTINATION: Final[dict[str, Message]] = {
    "CapabilitiesRequest": _NO_FIELDS,
    "CapabilitiesResponse": (Field(1, "batch_file_format", "BatchFileFormat"),),
    "DescribeTableRequest": (_CONFIGURATION, _SCHEMA_NAME, _TABLE_NAME),
    "DescribeTableResponse": _make_oneof(
        "response",
        Field(1, "not_found", "bool"),
        Field(2, "table", "Table"),
        Field(3, "warning", "Warning"),
        Field(4, "task", "Task"),
    ),
    "CreateTableRequest": (_CONFIGURATION, _SCHEMA_NAME, _TABLE),
    "CreateTableResponse": _OUTCOME,
    "AlterTableRequest": (
        _CONFIGURATION,
        _SCHEMA_NAME,
        _TABLE,
        Field(4, "drop_columns", "bool"),
    ),
    "AlterTableResponse": _OUTCOME,
    "TruncateRequest": (
        _CONFIGURATION,
        _SCHEMA_NAME,
        _TABLE_NAME,
        Field(4, "synced_column", "string"),
        Field(5, "utc_delete_before", "Timestamp"),
        Field(6, "soft", "SoftTruncate", "optional"),
    ),
    "SoftTruncate": _make_string_fields("deleted_column"),
    "TruncateResponse": _OUTCOME,
    "WriteBatchRequest": (
        _CONFIGURATION,
        _SCHEMA_NAME,
        _TABLE,
        _KEYS,
        Field(5, "replace_files", "string", "repeated"),
        Field(6, "update_files", "string", "repeated"),
        Field(7, "delete_files", "string", "repeated"),
        Field(8, "file_params", "FileParams"),
    ),
    "WriteHistoryBatchRequest": (
        _CONFIGURATION,
        _SCHEMA_NAME,
        _TABLE,
        _KEYS,
        Field(5, "earliest_start_files", "string", "repeated"),
        Field(6, "replace_files", "string", "repeated"),
        Field(7, "update_files", "string", "repeated"),
        Field(8, "delete_files", "string", "repeated"),
        Field(9, "file_params", "FileParams"),
    ),
    "FileParams": (
        Field(1, "compression", "Compression"),
        Field(2, "encryption", "Encryption"),
        Field(3, "null_string", "string"),
        Field(4, "unmodified_string", "string"),
    ),
    "WriteBatchResponse": _OUTCOME,
}

_COMMON_CALLS: Final = {
    "ConfigurationForm": Rpc("ConfigurationFormRequest", "ConfigurationFormResponse"),
    "Test": Rpc("TestRequest", "TestResponse"),
}
_CONNECTOR_CALLS: Final = {
    "Schema": Rpc("SchemaRequest", "SchemaResponse"),
    "Update": Rpc("UpdateRequest", "UpdateResponse", streams=True),
}
_DESTINATION_CALLS: Final = {
    "Capabilities": Rpc("CapabilitiesRequest", "CapabilitiesResponse"),
    "DescribeTable": Rpc("DescribeTableRequest", "DescribeTableResponse"),
    "CreateTable": Rpc("CreateTableRequest", "CreateTableResponse"),
    "AlterTable": Rpc("AlterTableRequest", "AlterTableResponse"),
    "Truncate": Rpc("TruncateRequest", "TruncateResponse"),
    "WriteBatch": Rpc("WriteBatchRequest", "WriteBatchResponse"),
    "WriteHistoryBatch": Rpc("WriteHistoryBatchRequest", "WriteBatchResponse"),
    "Migrate": Rpc("MigrateRequest", "MigrateResponse"),
}

_TIMESTAMP: Final = "google/protobuf/timestamp.proto"
_COMMON: Final = "common.proto"

FILES: Final = (
    ProtoFile(_COMMON, (_TIMESTAMP,), (TextField, DataType, RecordType), {**_FORM, **_DATA}, {}),
    ProtoFile(
        "connector_sdk.proto",
        (_COMMON,),
        (),
        _CONNECTOR,
        {"SourceConnector": {**_COMMON_CALLS, **_CONNECTOR_CALLS}},
    ),
    ProtoFile(
        "destination_sdk.proto",
        (_TIMESTAMP, _COMMON),
        (TableSyncModeMigrationType, Encryption, BatchFileFormat, Compression),
        {**_MIGRATE, **_DESTINATION},
        {"DestinationConnector": {**_COMMON_CALLS, **_DESTINATION_CALLS}},
    ),
)
"""All ``.proto`` files of the Partner SDK. Imported files come first."""
