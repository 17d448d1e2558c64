"""The settings of target-spark: JSON Schema, validation, and conversion to options.

`SCHEMA` describes each setting. `find_faults` returns all errors that a JSON Schema cannot detect.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from tap_core.batch.limits import FILES_SETTING, LINE_SETTING, FileLimits
from tap_core.batch.url_schemes import SCHEMES_SETTING
from tap_core.config.validation import is_trivially_valid
from tap_core.schema.validators import get_validator_class
from tap_core.types import JsonSchema
from target_spark.columns import ColumnOptions, Decimal, OnSchemaChange
from target_spark.config.options import (
    LoadOptions,
    QuarantineLimit,
    StreamOptions,
    WriteMode,
    split_identifier,
)
from target_spark.config.validation import (
    iterate_settings,
    uses_spark_catalog,
    validate_combinations,
)
from target_spark.spark.session import SparkSettings
from target_spark.storage.uris import (
    get_scheme,
    resolve_address,
    to_local_folder,
    to_spark_scheme,
    to_spark_uri,
)
from target_spark.tables.identifiers import RESERVED
from target_spark.tables.table import MaintenanceOptions, PartitionField, Transform

__all__ = [
    "RENAMED_SETTINGS",
    "REQUIREMENTS",
    "SCHEMA",
    "find_faults",
    "former_jobs",
    "get_job_name",
    "get_location",
    "get_path",
    "get_staging",
    "load_options",
    "shared_folders",
    "spark_settings",
    "with_defaults",
]

_DECIMAL: Final = re.compile(r"([1-9]\d?),(\d\d?)")
_TRANSFORM: Final = re.compile(r"(year|month|day|hour)\((.+)\)")
_MAX_DIGITS: Final = 38
_WRITE_MODES: Final = [mode.value for mode in WriteMode]
_WRITE_MODE_LABELS: Final = ["Append", "Upsert by key", "Overwrite", "Keep all versions"]


def _setting(type_: str, description: str, **kwargs: Any) -> JsonSchema:
    return {"type": [type_, "null"], "description": description, **kwargs}


_STREAM_SETTINGS: Final[JsonSchema] = {
    "write_mode": _setting(
        "string",
        "How a run changes existing rows: append, upsert (replace rows with the same key),"
        " overwrite (the table holds only the rows of this run, once the stream is known to be"
        " complete), or scd2 (keep every version of a row, with the times between which it was"
        " valid; Delta Lake and Iceberg). The default is upsert for streams with keys if the"
        " format supports it, else append.",
        enum=[*_WRITE_MODES, None],
        enumNames=_WRITE_MODE_LABELS,
    ),
    "catalog": _setting(
        "string",
        "The Spark catalog of the tables (spark_catalog is Spark's own catalog, or Hive's"
        " metastore). If path is set too, the files are stored below it; otherwise the catalog"
        " determines their location.",
        minLength=1,
    ),
    "database": _setting(
        "string",
        "The database (schema, namespace) of the tables in the catalog. It is created if it does"
        " not exist.",
        minLength=1,
    ),
    "partition_by": _setting(
        "array",
        "Properties by which a new table is partitioned, or parts of a date or date-time: year(x),"
        " month(x), day(x), hour(x). Streams without these properties are not partitioned.",
        items={"type": "string", "minLength": 1},
    ),
    "cluster_by": _setting(
        "array",
        "Properties by which a new table is clustered (Delta Lake's liquid clustering).",
        items={"type": "string", "minLength": 1},
    ),
    "sort_by": _setting(
        "array",
        "Properties by which the rows of each file are sorted.",
        items={"type": "string", "minLength": 1},
    ),
    "target_file_size": _setting("integer", "The target size of a file in bytes.", minimum=1 << 20),
    "hard_delete": _setting(
        "boolean",
        "Delete the rows that the source deleted and, with ACTIVATE_VERSION, the rows of other"
        " versions. If false, these rows stay, with the time of deletion in _sdc_deleted_at.",
    ),
    "on_schema_change": _setting(
        "string",
        "What a schema may change in an existing table: evolve (the default: add columns, widen"
        " types, and add a second column for a type that cannot be widened), widen (the same, but"
        " end the run instead of adding a second column), ignore (nothing: new properties are left"
        " out, and values that do not fit their column are handled like other such values), or"
        " fail (nothing: end the run if a column would have to be added or widened).",
        enum=[*(policy.value for policy in OnSchemaChange), None],
    ),
}
"""Settings that apply to all streams or to a single stream."""

RENAMED_SETTINGS: Final[Mapping[str, str]] = {
    "load_method": "set write_mode to append, upsert, overwrite or scd2",
    "batch_size_rows": "set flush_rows, the number of rows of a commit",
    "batch_wait_limit_seconds": "set flush_seconds, the longest time between commits",
    "default_target_schema": "set database, the tables' database in the catalog",
    "validate_records": "each value must fit its column, and rows that do not fit are"
    " quarantined; max_quarantined limits their number",
    "process_activate_version_messages": "ACTIVATE_VERSION is always applied, if the format can"
    " delete rows",
}
"""Settings of targets on singer_sdk 0.54 that target-spark lacks. Each has a sentence on the
setting to use instead."""

_DEFAULTS: Final = LoadOptions("")
"""Options with their default values. `SCHEMA` declares the same defaults for the settings."""

SCHEMA: Final[JsonSchema] = {
    "type": "object",
    "properties": {
        **_STREAM_SETTINGS,
        "path": _setting(
            "string",
            "The location of the tables: a local path, or a URI that Spark can write to"
            " (s3://..., abfss://..., hdfs://...). Each stream is a table in a folder of its name.",
        ),
        "warehouse": _setting("string", "Another name for path."),
        "format": _setting(
            "string",
            "The table format. Delta Lake and Iceberg support upserts and need jars, which are"
            " downloaded once. Parquet supports append and overwrite, and needs no jar.",
            enum=["delta", "iceberg", "parquet", None],
            enumNames=["Delta Lake", "Iceberg", "Parquet"],
            default="delta",
        ),
        "streams": _setting(
            "object",
            "Settings of single streams, by stream name: write_mode, table, catalog, database,"
            " partition_by, cluster_by, sort_by, target_file_size, hard_delete and"
            " on_schema_change.",
            additionalProperties={
                "type": "object",
                "properties": {
                    **_STREAM_SETTINGS,
                    "table": _setting("string", "The name of the stream's table.", minLength=1),
                },
                "additionalProperties": False,
            },
        ),
        "table_prefix": _setting("string", "The prefix of all table names.", default=""),
        "full_refresh": _setting(
            "array",
            "Streams that this run reloads in full: their tables are overwritten, whatever their"
            " write_mode.",
            items={"type": "string"},
        ),
        "dry_run": _setting(
            "boolean",
            "Read the input and report what would change in the tables. Nothing is written, and no"
            " state is emitted.",
            default=False,
        ),
        "compact": _setting(
            "boolean",
            "After the last commit, merge small files into larger ones, in each table that the run"
            " wrote to.",
            default=False,
        ),
        "retain_days": _setting(
            "number",
            "After the last commit, delete files that have not been part of a table for this many"
            " days (Delta's vacuum), and older Iceberg snapshots. By default nothing is deleted.",
            minimum=7,
        ),
        "delete_batch_files": _setting(
            "boolean",
            "Delete the files of BATCH messages once their rows are committed.",
            default=False,
        ),
        SCHEMES_SETTING: _setting(
            "array",
            "URI schemes, such as hdfs, that BATCH messages may use in addition to local files and"
            " object storage (s3, gs, abfs and similar). URIs on the host of path or staging are"
            " always allowed.",
            items={"type": "string", "minLength": 1},
        ),
        LINE_SETTING: _setting(
            "integer",
            "The maximum size in bytes of a line, or of a Parquet value, in a file of a BATCH"
            " message. A row takes many times its size in Spark's memory.",
            minimum=1,
            default=_DEFAULTS.batch_limits.line.most,
        ),
        FILES_SETTING: _setting(
            "integer",
            "The maximum number of files that one BATCH message may name.",
            minimum=1,
            default=_DEFAULTS.batch_limits.files,
        ),
        "flush_rows": _setting(
            "integer",
            "Commit a batch of a stream when it has this many rows.",
            minimum=1,
            default=_DEFAULTS.flush_rows,
        ),
        "flush_bytes": _setting(
            "integer",
            "Commit a batch of a stream when it has this many bytes.",
            minimum=1,
            default=_DEFAULTS.flush_bytes,
        ),
        "flush_seconds": _setting(
            "number",
            "Commit a batch of a stream when its oldest row is this many seconds old, even while"
            " the tap sends nothing.",
            exclusiveMinimum=0,
            default=300,
        ),
        "max_spool_bytes": _setting(
            "integer",
            "The bytes of spooled rows on disk, over all streams, above which target-spark stops"
            " reading until batches are committed. Streams that overwrite are not counted: their"
            " rows stay in the spool until the stream is complete.",
            minimum=1,
            default=_DEFAULTS.spool_bytes,
        ),
        "max_parallel_commits": _setting(
            "integer",
            "The maximum number of tables that are committed to at the same time.",
            minimum=1,
            default=_DEFAULTS.writers,
        ),
        "master": _setting(
            "string",
            "Spark's master URL: local[*], spark://host:7077, yarn, ...",
            default="local[*]",
        ),
        "remote": _setting(
            "string", "The URI of a Spark Connect server (sc://host:15002), instead of master."
        ),
        "spark": _setting(
            "object",
            "Spark settings by name (spark.driver.memory, ...).",
            holds_secrets=True,
            propertyNames={"pattern": "^spark\\."},
            additionalProperties={"type": ["string", "number", "boolean"]},
        ),
        "jars": _setting(
            "array",
            "Local paths of the jars of the table format and the storage, for machines that cannot"
            " download them.",
            items={"type": "string"},
        ),
        "small_runs": _setting(
            "boolean",
            "Optimize the JVM for a fast start: less CPU time for runs below about a million rows,"
            " more for larger runs.",
            default=False,
        ),
        "small_batches": _setting(
            "string",
            "The writer of small batches into Delta tables in local folders: spark, or delta-rs,"
            " which needs no JVM. With delta-rs, Spark starts when a batch or table needs it.",
            enum=["spark", "delta-rs"],
            default="spark",
        ),
        "engine": _setting(
            "string",
            "The use of an engine, a Spark of this machine that stays between runs: auto (use one"
            " that is running with the same settings, else start its own Spark), keep (the same,"
            " and start an engine if none is running), or never.",
            enum=["auto", "keep", "never", None],
            default="auto",
        ),
        "engine_idle_seconds": _setting(
            "number",
            "The seconds without a run after which an engine ends.",
            exclusiveMinimum=0,
            default=1800,
        ),
        "job": _setting(
            "string",
            "The name under which the tables store batch numbers and states. Only one run per job"
            " is active at a time. Two pipelines that load into one path need different names. The"
            " default is derived from format and path, with symbolic links resolved.",
            minLength=1,
        ),
        "staging": _setting(
            "string",
            "The location of the spool: a folder, or a URI (s3a://...). Required with a cluster,"
            " where the driver and all executors must have the folder under the same path, or"
            " access to the URI. The default is the system's temporary folder.",
        ),
        "strict": _setting(
            "boolean",
            "End the run at a record that violates the schema of its stream: an undeclared stream"
            " or field, a value of another type, or a missing required field. Implies"
            " outside_catalog: fail, misfits: quarantine and max_quarantined: 0. Each record is"
            " decoded an additional time.",
            default=False,
        ),
        "max_quarantined": _setting(
            "integer",
            "The maximum number of rows of the run, over all streams, that do not fit their"
            " columns: one more ends the run, and its batch is not committed. Or a share of each"
            " stream (1%): a stream with a larger share is not complete, and no state that covers"
            " its rows is emitted. By default such rows are written to <table>__quarantine, as long"
            " as at least one row of their stream fits.",
            type=["integer", "string", "null"],
            minimum=0,
        ),
        "add_record_metadata": _setting(
            "boolean",
            "Add the columns _sdc_extracted_at, _sdc_received_at, _sdc_batched_at,"
            " _sdc_deleted_at, _sdc_sequence, _sdc_table_version and _sdc_sync_started_at.",
            default=False,
        ),
        "overwrite_on_eof": _setting(
            "string",
            "When the end of the input completes a stream that overwrites: complete (if the last"
            " message is a STATE without progress markers), or always (for taps that send no"
            " STATE; a tap that crashed then counts as one that finished).",
            enum=["complete", "always", None],
            default="complete",
        ),
        "outside_catalog": _setting(
            "string",
            "The handling of streams and fields that are not in the Airbyte catalog: ignore (the"
            " default; such records are counted), or fail.",
            enum=["ignore", "fail", None],
        ),
        "misfits": _setting(
            "string",
            "The handling of records of an Airbyte source with a value that does not fit its"
            " column: keep (the default; the value becomes null, and _airbyte_meta has the"
            " reason), or quarantine.",
            enum=["keep", "quarantine", None],
        ),
        "numbers_as_decimal": _setting(
            "string",
            "Store numbers without multipleOf as decimals of 'precision,scale', such as 38,10,"
            " instead of doubles. Rows that do not fit are quarantined.",
            pattern=f"^{_DECIMAL.pattern}$",
        ),
        "oversized_numbers_as_text": _setting(
            "boolean",
            "Store numbers that are declared with more than 38 digits as text.",
            default=False,
        ),
        "truncate_timestamps": _setting(
            "boolean",
            "Truncate date-times with more than six decimal places of a second to microseconds. If"
            " false, such records are quarantined, unless the additional digits are zeros.",
            default=False,
        ),
        "report": _setting("string", "The path of the run's report, a JSON file."),
        "report_html": _setting(
            "string",
            "The path of an HTML file with the last runs, the tables and their quarantines, written"
            " at the end of each run in the table of runs. Needs the extra report.",
        ),
        "run_history": _setting(
            "boolean",
            "Append a row for each stream of a run to the table _target_spark_runs beside the"
            " tables: when and how the run ended, its numbers of rows, its states and its error.",
            default=True,
        ),
        "after_load": _setting(
            "array",
            'Actions after the last commit, one after the other. {"sql": "..."} runs a statement'
            " in the run's Spark; {table:STREAM} in it is the quoted name of a stream's table."
            ' {"command": ["dbt", "run"]} runs a program with the run\'s report on its standard'
            ' input, for at most timeout_seconds. "on" is complete (the default), failed or always.'
            " If an action fails, the exit code is 1; the load is not undone.",
            items={
                "type": "object",
                "properties": {
                    "sql": {"type": "string", "minLength": 1},
                    "command": {
                        "type": "array",
                        "items": {"type": "string", "minLength": 1},
                        "minItems": 1,
                    },
                    "on": {"type": "string", "enum": ["complete", "failed", "always"]},
                    "timeout_seconds": {"type": "number", "exclusiveMinimum": 0},
                },
                "additionalProperties": False,
            },
        ),
        "webhook": _setting(
            "string",
            "A URL (http, https) that gets the outcome of each run as a JSON document in a POST.",
            pattern="^https?://[^/]",
            secret=True,
        ),
        "on_interrupt": _setting(
            "string",
            "The effect of the first Ctrl-C (SIGINT): 'commit' to commit the rows received so far,"
            " or 'stop' to finish only the commits in progress. A second signal ends the run at"
            " once.",
            enum=["commit", "stop", None],
            default="commit",
        ),
        "print_report": _setting(
            "boolean",
            "Print the report as a JSON line on standard error even if that is a terminal.",
            default=False,
        ),
    },
}


def _require_text(name: str, **kwargs: Any) -> JsonSchema:
    """Return a JSON Schema that requires the setting ``name`` to be a non-empty string.

    ``kwargs`` are further JSON Schema keywords for the value, such as ``pattern``.
    """
    return {
        "required": [name],
        "properties": {name: {"type": "string", "minLength": 1, **kwargs}},
    }


_STRICT: Final[Mapping[str, Any]] = {
    "outside_catalog": "fail",
    "misfits": "quarantine",
    "max_quarantined": 0,
}
"""Settings that the setting ``strict: true`` implies, with their values."""

_LOCATION_SETTINGS: Final = ("path", "warehouse", "catalog", "database")
"""Settings that define the location of tables. At least one of them is required."""

REQUIREMENTS: Final[JsonSchema] = {
    "anyOf": [_require_text(name) for name in _LOCATION_SETTINGS],
    "allOf": [
        {"not": {"allOf": [_require_text("path"), _require_text("warehouse")]}},
        {
            "if": {
                "anyOf": [
                    _require_text("remote"),
                    _require_text("master", **{"not": {"pattern": "^local"}}),
                ]
            },
            "then": _require_text("staging"),
        },
        {
            "if": _require_text("remote"),
            "then": {"properties": {"master": {"enum": ["local[*]", "", None]}}},
        },
        {
            "if": {"required": ["strict"], "properties": {"strict": {"const": True}}},
            "then": {"properties": {k: {"enum": [value, None]} for k, value in _STRICT.items()}},
        },
    ],
}
"""JSON Schema keywords for settings that are required or exclude each other.

They complete `SCHEMA` in Airbyte's `spec`, so that a client can check a configuration before it
sends it. target-spark itself uses `find_faults`, which reports the same errors as sentences, and
others that a JSON Schema cannot express.
"""


def get_path(config: Mapping[str, Any]) -> str:
    """Return the setting ``path``: the path or URL below which tables are stored.

    ``warehouse`` is another name of this setting. Return "" if neither is set.
    """
    return _to_spark_address(config, config.get("path") or config.get("warehouse"))


def get_staging(config: Mapping[str, Any]) -> str | None:
    """Return the setting ``staging``: the folder or URL for uncommitted rows; None if not set."""
    return _to_spark_address(config, config.get("staging")) or None


def _to_spark_address(config: Mapping[str, Any], address: Any) -> str:
    """Return a path or URL with the scheme that Spark uses, such as ``s3a`` instead of ``s3``.

    The scheme is kept if the setting ``spark`` configures a file system for it.
    """
    text = str(address or "")
    has_own_file_system = f"spark.hadoop.fs.{get_scheme(text)}.impl" in (config.get("spark") or {})
    return text if has_own_file_system else to_spark_scheme(text)


def find_faults(config: Mapping[str, Any]) -> list[str]:
    """Return an error text for each error in the settings that the JSON Schema cannot detect.

    An example is two settings that exclude each other. Settings that the JSON Schema rejects are
    skipped.
    """
    invalid = frozenset(name for name, value in config.items() if not _fits_schema(name, value))
    return list(_iterate_faults({k: v for k, v in config.items() if k not in invalid}, invalid))


def _fits_schema(name: str, value: Any) -> bool:
    schema = SCHEMA["properties"].get(name, {})
    return is_trivially_valid(value, schema) or bool(get_validator_class()(schema).is_valid(value))


def _iterate_faults(config: Mapping[str, Any], invalid: frozenset[str]) -> Iterator[str]:
    """Yield an error text for each error in settings that fit the JSON Schema.

    ``invalid`` has the names of settings that the JSON Schema rejects. ``config`` lacks these.
    """
    if not get_location(config) and invalid.isdisjoint(_LOCATION_SETTINGS):
        yield (
            "'path' is a required property: the folder or address of the tables; or catalog and"
            " database, for tables in a catalog"
        )
    if config.get("path") and config.get("warehouse"):
        yield "path and warehouse are two names of one setting; set only one of them"
    if config.get("strict"):
        for name, value in _STRICT.items():
            if config.get(name) not in (None, value):
                yield (
                    f"{name}: strict implies {name}: {value}, but this is set to"
                    f" {config[name]}; remove one of the two"
                )
    yield from validate_combinations(config)
    yield from _check_quarantine_limit(config.get("max_quarantined"))
    yield from _check_actions(config.get("after_load") or ())
    numbers = _DECIMAL.fullmatch(str(config.get("numbers_as_decimal") or "38,0"))
    if numbers is None or not int(numbers[2]) <= int(numbers[1]) <= _MAX_DIGITS:
        yield (
            f"numbers_as_decimal: write 'precision,scale', such as 38,10; at most {_MAX_DIGITS}"
            " digits, and no more places than digits"
        )
    if _is_distributed(config) and not config.get("staging"):
        yield (
            "'staging' is a required property with a cluster (master, remote): a folder that has"
            " the same path on this machine and on Spark's executors, or a URL that all of them"
            " can access; it stores rows until their commit"
        )


def _check_quarantine_limit(setting: Any) -> Iterator[str]:
    """Yield an error text if the setting ``max_quarantined`` is an invalid string, such as "1 row".

    Values of other types are checked by the JSON Schema.
    """
    try:
        QuarantineLimit.parse(setting if isinstance(setting, str) else None)
    except ValueError as error:
        yield f"max_quarantined: {error}"


def _check_actions(actions: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield an error text for each invalid action in the setting ``after_load``."""
    for index, action in enumerate(actions):
        if ("sql" in action) == ("command" in action):
            yield f"after_load.{index}: set either sql or command"
        elif "sql" in action and "timeout_seconds" in action:
            yield f"after_load.{index}: timeout_seconds is for a command; remove it"


def get_location(config: Mapping[str, Any]) -> str:
    """Return the location of all tables: a path, a URL, or a name such as "catalog:main.sales".

    Return "" if the settings contain no location.
    """
    levels = split_identifier(config.get("catalog"), config.get("database"))
    return get_path(config) or (f"catalog:{'.'.join(levels)}" if levels else "")


def get_job_name(config: Mapping[str, Any]) -> str:
    """Return the name of the job from the setting ``job``.

    If it is not set, return a hash of the table format and the location of the tables.
    """
    return str(config.get("job") or _default_job(config, resolve_address(get_location(config))))


def former_jobs(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the default job names that earlier releases derived from these settings.

    Up to version 0.1 the default name was a hash of the path as written in the settings. Now it is
    a hash of the resolved path. Return an empty tuple if the two hashes are equal, or if ``job`` is
    set.
    """
    former = _default_job(config, to_spark_uri(get_location(config)).rstrip("/"))
    return () if config.get("job") or former == get_job_name(config) else (former,)


def _default_job(config: Mapping[str, Any], location: str) -> str:
    levels = split_identifier(config.get("catalog"), config.get("database"))
    tables = " ".join(filter(None, [location, *levels]))
    identity = f"{with_defaults(config)['format']} {tables}"
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def with_defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with default values added, and without settings that are null.

    With ``strict``, the settings that it implies are set as well, such as ``misfits: quarantine``.
    """
    defaults = {
        name: setting["default"]
        for name, setting in SCHEMA["properties"].items()
        if "default" in setting
    }
    set_values = {key: value for key, value in config.items() if value is not None}
    return {**defaults, **set_values, **(_STRICT if set_values.get("strict") else {})}


def load_options(config: Mapping[str, Any]) -> LoadOptions:
    """Convert the settings, which must be valid, to the typed options of a load."""
    complete = with_defaults(config)
    return LoadOptions(
        path=get_path(complete),
        format=complete["format"],
        every=_stream_options(complete),
        streams={name: _stream_options(own) for name, own in complete.get("streams", {}).items()},
        full_refresh=frozenset(complete.get("full_refresh", ())),
        table_prefix=complete["table_prefix"],
        flush_rows=complete["flush_rows"],
        flush_bytes=complete["flush_bytes"],
        flush_seconds=complete["flush_seconds"],
        spool_bytes=complete["max_spool_bytes"],
        writers=complete["max_parallel_commits"],
        max_quarantined=QuarantineLimit.parse(complete.get("max_quarantined")),
        always_overwrite=complete.get("overwrite_on_eof") == "always",
        delete_files=complete["delete_batch_files"],
        batch_limits=FileLimits.from_config(complete),
        columns=_column_options(complete),
        dry_run=complete["dry_run"],
        maintenance=MaintenanceOptions(complete["compact"], complete.get("retain_days")),
        staging=get_staging(complete),
        strict=complete["strict"],
        small_batches_without_spark=complete["small_batches"] == "delta-rs",
        run_history=complete["run_history"],
    )


def _stream_options(config: Mapping[str, Any]) -> StreamOptions:
    mode, policy = config.get("write_mode"), config.get("on_schema_change")
    return StreamOptions(
        write_mode=WriteMode(mode) if mode else None,
        table=config.get("table"),
        catalog=config.get("catalog"),
        database=config.get("database"),
        partition_by=tuple(map(_parse_partition, config.get("partition_by") or ())),
        cluster_by=tuple(config.get("cluster_by") or ()),
        sort_by=tuple(config.get("sort_by") or ()),
        file_bytes=config.get("target_file_size"),
        hard_delete=config.get("hard_delete"),
        on_schema_change=OnSchemaChange(policy) if policy else None,
    )


def _parse_partition(text: str) -> PartitionField:
    """Parse a partition field: a property such as ``x``, or a transform such as ``day(x)``."""
    match = _TRANSFORM.fullmatch(text)
    return PartitionField(match[2], cast("Transform", match[1])) if match else PartitionField(text)


def _column_options(config: Mapping[str, Any]) -> ColumnOptions:
    numbers = _DECIMAL.fullmatch(config.get("numbers_as_decimal") or "")
    return ColumnOptions(
        plain_numbers=Decimal(int(numbers[1]), int(numbers[2])) if numbers else None,
        oversized_as_text=bool(config.get("oversized_numbers_as_text")),
        truncate_timestamps=bool(config.get("truncate_timestamps")),
        metadata=bool(config.get("add_record_metadata")),
        reserved=RESERVED.get(config["format"], frozenset()),
    )


def _is_distributed(config: Mapping[str, Any]) -> bool:
    """Return True if Spark runs on other machines: a cluster or a Spark Connect server."""
    master = str(config.get("master") or "local")
    return bool(config.get("remote")) or not master.startswith("local")


def shared_folders(config: Mapping[str, Any], scratch: str = "") -> dict[str, str]:
    """Return the local folders that the executors of a cluster must share with this machine.

    Args:
        config: The settings of the target.
        scratch: The run's private folder inside ``staging``, which is returned instead of the value
            of ``staging``; "" to return the value.

    Returns:
        Folders by the names of their settings, ``staging`` and ``path``, without URLs. Empty if
        Spark runs on this machine.
    """
    if not _is_distributed(config):
        return {}
    tables = "" if config.get("dry_run") else get_path(config)
    locations = {"staging": get_staging(config) or "", "path": tables}
    paths = {name: to_local_folder(location) for name, location in locations.items() if location}
    folders = {name: str(folder) for name, folder in paths.items() if folder is not None}
    return {**folders, "staging": scratch} if scratch and "staging" in folders else folders


def spark_settings(config: Mapping[str, Any], scratch: str = "") -> SparkSettings:
    """Convert the target's settings to the settings for the start of Spark.

    Args:
        config: The settings of the target.
        scratch: The run's private folder for temporary files. If it is not "", Spark tests at its
            start that the executors can access the folders that they share with this machine.
    """
    complete = with_defaults(config)
    return SparkSettings(
        master=config.get("master") or "local[*]",
        remote=config.get("remote"),
        conf={key: _to_conf_text(value) for key, value in (config.get("spark") or {}).items()},
        format=complete["format"],
        small_runs=bool(config.get("small_runs")),
        jars=tuple(config.get("jars") or ()),
        addresses=tuple(filter(None, (get_path(config), get_staging(config)))),
        scratch=scratch,
        shared=shared_folders(config, scratch) if scratch else {},
        engine="never" if _uses_session_catalog(config) else complete["engine"],
        engine_idle_seconds=complete["engine_idle_seconds"],
    )


def _uses_session_catalog(config: Mapping[str, Any]) -> bool:
    """Return True if tables are registered in Spark's own catalog, ``spark_catalog``.

    All sessions of a Spark process share this catalog, so two runs could register the same name.
    """
    return any(
        uses_spark_catalog(merged)
        for _, _, merged in iterate_settings(config)
        if split_identifier(merged.get("catalog"), merged.get("database"))
    )


def _to_conf_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
