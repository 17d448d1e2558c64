"""Capabilities of plugins, and the built-in settings that belong to them.

Enums and settings have the names and values of singer_sdk, because plugin catalogs, such as Meltano
Hub, use them.
"""

from __future__ import annotations

from enum import Enum, EnumMeta
from typing import Any
from warnings import warn

from tap_core.types import JsonSchema

__all__ = [
    "ACTIVATE_VERSION_CONFIG",
    "ADD_RECORD_METADATA_CONFIG",
    "BATCH_CONFIG",
    "BATCH_READING_CONFIG",
    "EMIT_ACTIVATE_VERSION_CONFIG",
    "FLATTENING_CONFIG",
    "PARALLEL_PARTITIONS_CONFIG",
    "PARALLEL_STREAMS_CONFIG",
    "SQL_TAP_USE_SINGER_DECIMAL",
    "STATE_PARTITION_LIMIT_CONFIG",
    "STREAM_MAPS_CONFIG",
    "TARGET_BATCH_SIZE_ROWS_CONFIG",
    "TARGET_HARD_DELETE_CONFIG",
    "TARGET_LOAD_METHOD_CONFIG",
    "TARGET_SCHEMA_CONFIG",
    "TARGET_VALIDATE_RECORDS_CONFIG",
    "CapabilitiesEnum",
    "DeprecatedEnum",
    "DeprecatedEnumMeta",
    "PluginCapabilities",
    "TapCapabilities",
    "TargetCapabilities",
    "TargetLoadMethods",
]


class DeprecatedEnum(Enum):
    """Enumeration whose members may be deprecated.

    Define a deprecated member as ``NAME = value, "Please use OTHER instead."``.
    """

    deprecation: str | None

    def __new__(cls, value: object, deprecation: str | None = None) -> DeprecatedEnum:  # noqa: PYI034
        """Create an enumeration member; ``deprecation`` names the replacement, if deprecated."""
        member = object.__new__(cls)
        member._value_ = value
        member.deprecation = deprecation
        return member

    @property
    def deprecation_message(self) -> str | None:
        """Text that names the replacement of a deprecated member, or None."""
        return self.deprecation

    def emit_warning(self) -> None:
        """Emit a DeprecationWarning that names this member and its replacement."""
        warn(
            f"{self.name} is deprecated. {self.deprecation_message}",
            DeprecationWarning,
            stacklevel=4,  # skips the frames of the metaclass and its helper
        )


class DeprecatedEnumMeta(EnumMeta):
    """Metaclass that warns when a deprecated member is accessed by name, attribute or value."""

    def __getitem__(cls, name: str) -> Any:
        return _warn_if_deprecated(super().__getitem__(name))

    def __getattribute__(cls, name: str) -> Any:
        return _warn_if_deprecated(super().__getattribute__(name))

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return the enumeration member with the value in ``args``; warn if it is deprecated.

        With more arguments, create a new enumeration, as `EnumMeta` does.
        """
        return _warn_if_deprecated(super().__call__(*args, **kwargs))


def _warn_if_deprecated(member: Any) -> Any:
    if isinstance(member, DeprecatedEnum) and member.deprecation_message:
        member.emit_warning()
    return member


class CapabilitiesEnum(DeprecatedEnum, metaclass=DeprecatedEnumMeta):
    """Base class of capability enumerations. ``str()`` of a member returns its value."""

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return str(self.value)


class PluginCapabilities(CapabilitiesEnum):
    """Capabilities of taps and targets, such as ``about`` and ``stream-maps``."""

    #: Describes itself and its settings with ``--about``.
    ABOUT = "about"

    #: Renames, filters and computes properties of records (``stream_maps``).
    STREAM_MAPS = "stream-maps"

    #: Flattens nested objects into columns (``flattening_enabled``).
    FLATTENING = "schema-flattening"

    #: Supports the ACTIVATE_VERSION message.
    ACTIVATE_VERSION = "activate-version"

    #: Transfers rows in batch files (``batch_config``).
    BATCH = "batch"

    #: Logs JSON lines if ``SINGER_SDK_LOG_CONFIG`` configures them.
    STRUCTURED_LOGGING = "structured-logging"


class TapCapabilities(CapabilitiesEnum):
    """Capabilities of a tap, such as ``discover`` and ``state``."""

    #: Prints its catalog with ``--discover``.
    DISCOVER = "discover"

    #: Accepts a catalog, with its metadata and selection.
    CATALOG = "catalog"

    #: Resumes from a state.
    STATE = "state"

    #: Tests its connection with ``--test``.
    TEST = "test"

    #: Supports ``replication_method: LOG_BASED``.
    LOG_BASED = "log-based"

    #: Deprecated name of the catalog.
    PROPERTIES = "properties", "Please use CATALOG instead."

    #: Sends ACTIVATE_VERSION messages.
    ACTIVATE_VERSION = "activate-version"


class TargetCapabilities(CapabilitiesEnum):
    """Capabilities of a target, such as ``hard-delete``."""

    #: Marks rows as deleted.
    SOFT_DELETE = "soft-delete"

    #: Removes deleted rows.
    HARD_DELETE = "hard-delete"

    #: Has a column type for values of unknown type.
    DATATYPE_FAILSAFE = "datatype-failsafe"

    #: Lets the user choose the schema of the tables.
    TARGET_SCHEMA = "target-schema"

    #: Checks records against the schema of their stream.
    VALIDATE_RECORDS = "validate-records"


class TargetLoadMethods(str, Enum):
    """Values of the setting ``load_method``, which selects how a target writes to a table."""

    APPEND_ONLY = "append-only"
    UPSERT = "upsert"
    OVERWRITE = "overwrite"


# Built-in settings


def _make_config_schema(**properties: JsonSchema) -> JsonSchema:
    """Return the JSON Schema of a config with these settings: the schema of each, by name."""
    return {"type": "object", "properties": properties, "$schema": _DIALECT}


def _setting(kind: str, title: str, description: str, **kwargs: Any) -> JsonSchema:
    """Return the JSON Schema of a nullable setting of type ``kind``; ``kwargs`` are keywords."""
    return {"type": [kind, "null"], "title": title, "description": description, **kwargs}


_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NULL_DEFINITION: JsonSchema = {"anyOf": [{"const": "__NULL__"}, {"type": "null"}]}

_STREAM_MAP: JsonSchema = {
    "type": "object",
    "properties": {
        "__alias__": _setting("string", "Stream Alias", "The new name of the stream."),
        "__else__": {
            **_NULL_DEFINITION,
            "title": "Other properties",
            "description": "`__NULL__` removes every property that is not listed here.",
        },
        "__filter__": _setting(
            "string", "Filter", "An expression; only records for which it is true are kept."
        ),
        "__key_properties__": _setting(
            "array",
            "Key Properties",
            "The properties that identify a record, instead of the stream's keys.",
            items={"type": ["string"]},
        ),
        "__source__": _setting(
            "string", "Source", "The stream from which a new stream gets its records."
        ),
    },
    "additionalProperties": {"anyOf": [*_NULL_DEFINITION["anyOf"], {"type": ["string"]}]},
}

STREAM_MAPS_CONFIG = _make_config_schema(
    stream_maps={
        "type": ["object", "null"],
        "properties": {
            "__else__": {
                **_NULL_DEFINITION,
                "title": "Other streams",
                "description": "`__NULL__` removes every stream that is not listed here.",
            },
        },
        "additionalProperties": {"anyOf": [*_NULL_DEFINITION["anyOf"], _STREAM_MAP]},
        "title": "Stream Maps",
        "description": "Expressions that rename, filter and compute properties, by stream name.",
    },
    stream_map_config=_setting(
        "object",
        "User Stream Map Configuration",
        "Values that the expressions of stream maps can use.",
        properties={},
        additionalProperties=True,
    ),
    faker_config=_setting(
        "object",
        "Faker Configuration",
        "Options of the variable `fake` in stream maps; needs the package Faker.",
        properties={
            "seed": {
                "oneOf": [
                    {"type": ["number"]},
                    {"type": ["string"]},
                    {"type": ["boolean"]},
                    {"type": "null"},
                ],
                "title": "Faker Seed",
                "description": "The random seed: equal seeds give equal fake values.",
            },
            "locale": {
                "oneOf": [
                    {"type": ["string"]},
                    {"type": "array", "items": {"type": ["string"]}},
                    {"type": "null"},
                ],
                "title": "Faker Locale",
                "description": "The locale, or locales, of fake values.",
            },
        },
        additionalProperties=True,
    ),
)
"""Settings of stream maps: the maps, their config, and the options of Faker."""

FLATTENING_CONFIG = _make_config_schema(
    flattening_enabled=_setting(
        "boolean", "Enable Schema Flattening", "Flatten nested objects into separate columns."
    ),
    flattening_max_depth=_setting(
        "integer", "Max Flattening Depth", "The maximum number of levels to flatten."
    ),
    flattening_max_key_length=_setting(
        "integer", "Max Key Length", "The maximum length of a flattened name, in characters."
    ),
    flattening_separator=_setting(
        "string", "Flattening Separator", "The text between the parts of a flattened name."
    ),
)
"""Settings of flattening: whether to convert objects to columns, the depth, and the names."""

BATCH_CONFIG = _make_config_schema(
    batch_config=_setting(
        "object",
        "Batch Configuration",
        "Settings of BATCH messages: files of rows instead of RECORD messages.",
        properties={
            "encoding": _setting(
                "object",
                "Batch Encoding Configuration",
                "The encoding of the files.",
                properties={
                    "format": _setting(
                        "string",
                        "Batch Encoding Format",
                        "The format of the files.",
                        enum=["jsonl", "parquet"],
                    ),
                    "compression": _setting(
                        "string",
                        "Batch Compression Format",
                        "The compression of the files.",
                        enum=["gzip", "none"],
                    ),
                },
                additionalProperties=True,
            ),
            "storage": _setting(
                "object",
                "Batch Storage Configuration",
                "The storage of the files.",
                properties={
                    "root": _setting(
                        "string", "Batch Storage Root", "The folder, or the URI of a storage."
                    ),
                    "prefix": _setting(
                        "string", "Batch Storage Prefix", "The prefix of the file names."
                    ),
                },
                additionalProperties=True,
            ),
        },
        additionalProperties=True,
    ),
)
"""Settings with which a tap writes BATCH messages: encoding and storage of the files."""

BATCH_READING_CONFIG = _make_config_schema(
    batch_max_line_bytes=_setting(
        "integer",
        "Batch Max Line Bytes",
        "The maximum size in bytes of a line, or of a Parquet value, of a batch file. The default"
        " is 67108864 (64 MiB).",
        minimum=1,
    ),
    batch_max_files=_setting(
        "integer",
        "Batch Max Files",
        "The maximum number of files that one BATCH message may name. The default is 5000.",
        minimum=1,
    ),
    batch_schemes=_setting(
        "array",
        "Batch Schemes",
        "URI schemes, such as `sftp`, that BATCH messages may use in addition to local files and"
        " object storage (`s3`, `gs`, `abfs` and similar).",
        items={"type": ["string"]},
    ),
)
"""Settings with which a target reads BATCH messages: limits on the files."""

SQL_TAP_USE_SINGER_DECIMAL = _make_config_schema(
    use_singer_decimal=_setting(
        "boolean",
        "Use Singer Decimal",
        "Send decimals and floats as text with the format `singer.decimal`, with all digits.",
    ),
)
"""Setting of SQL taps: whether decimals are sent as strings (format ``singer.decimal``)."""

STATE_PARTITION_LIMIT_CONFIG = _make_config_schema(
    state_partition_limit=_setting(
        "integer",
        "State Partition Limit",
        "The maximum number of partitions of a stream with separate bookmarks. With more"
        " partitions, the oldest bookmark applies to all. It can lower the limit of a stream,"
        " but not raise it.",
        minimum=1,
    ),
)
"""Setting of taps: the maximum number of partitions of a stream in the state."""

TARGET_SCHEMA_CONFIG = _make_config_schema(
    default_target_schema=_setting(
        "string", "Default Target Schema", "The schema (database) in which tables are created."
    ),
)
"""Setting of SQL targets: the database schema for streams that name none."""

EMIT_ACTIVATE_VERSION_CONFIG = _make_config_schema(
    emit_activate_version_messages=_setting(
        "boolean",
        "Emit `ACTIVATE_VERSION` messages",
        "Send ACTIVATE_VERSION, which tells a target that a version of a table is complete.",
        default=False,
    ),
)
"""Setting of taps: whether ACTIVATE_VERSION messages are written."""

ACTIVATE_VERSION_CONFIG = _make_config_schema(
    process_activate_version_messages=_setting(
        "boolean",
        "Process `ACTIVATE_VERSION` messages",
        "Delete the rows of older versions when a new version is complete.",
        default=True,
    ),
)
"""Setting of targets: whether ACTIVATE_VERSION messages are processed."""

ADD_RECORD_METADATA_CONFIG = _make_config_schema(
    add_record_metadata=_setting(
        "boolean", "Add Record Metadata", "Add the `_sdc_` columns to each row."
    ),
)
"""Setting of targets: whether metadata columns are added to records."""

TARGET_HARD_DELETE_CONFIG = _make_config_schema(
    hard_delete=_setting(
        "boolean", "Hard Delete", "Remove deleted rows instead of marking them.", default=False
    ),
)
"""Setting of targets: whether deleted rows are removed or marked."""

TARGET_VALIDATE_RECORDS_CONFIG = _make_config_schema(
    validate_records=_setting(
        "boolean",
        "Validate Records",
        "Validate each record against the schema of its stream.",
        default=True,
    ),
)
"""Setting of targets: whether records are validated against their schema."""

TARGET_BATCH_SIZE_ROWS_CONFIG = _make_config_schema(
    batch_size_rows=_setting(
        "integer", "Batch Size Rows", "The maximum number of rows in a batch."
    ),
)
"""Setting of targets: the maximum number of rows in a batch."""

TARGET_LOAD_METHOD_CONFIG = _make_config_schema(
    load_method={
        "type": ["string", "null"],
        "description": (
            "`append-only` adds every record as a row, `upsert` updates existing rows and adds "
            "the others, `overwrite` replaces all rows."
        ),
        "enum": [method.value for method in TargetLoadMethods],
        "default": TargetLoadMethods.APPEND_ONLY.value,
    },
)
"""Setting of SQL targets: whether rows are appended or upserted, or the table is overwritten."""

PARALLEL_PARTITIONS_CONFIG = _make_config_schema(
    max_parallel_partitions=_setting(
        "integer",
        "Max Parallel Partitions",
        "The maximum number of partitions, or contexts of child streams, that are read at the"
        " same time. It can lower the limit of a stream, but not raise it.",
        minimum=1,
    ),
)
"""Setting of taps: the maximum number of threads that read partitions of a stream."""

PARALLEL_STREAMS_CONFIG = _make_config_schema(
    max_parallel_streams=_setting(
        "integer",
        "Max Parallel Streams",
        "The maximum number of streams that are read at the same time. It can lower the limit of"
        " the tap, but not raise it.",
        minimum=1,
    ),
)
"""Setting of taps: the maximum number of streams that are read at the same time."""
