"""The settings of target-spark: their schema, their faults, and what they mean.

Rules of the room: pure. Each setting is described once, in the schema; whatever a schema
cannot say is said in `faults`, all of it at once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from tap_core.batch.limits import FILES_SETTING, LINE_SETTING, FileLimits
from tap_core.batch.url_schemes import SCHEMES_SETTING
from tap_core.config.validation import is_trivially_valid
from tap_core.schema.validators import validator_class
from tap_core.types import JsonSchema
from target_spark.columns import ColumnOptions, Decimal
from target_spark.config.options import (
    LoadOptions,
    QuarantineLimit,
    StreamOptions,
    WriteMode,
    split_identifier,
)
from target_spark.config.validation import validate_combinations
from target_spark.spark.session import SparkSettings
from target_spark.storage.uris import resolve_address, to_local_folder, to_spark_uri
from target_spark.tables.identifiers import RESERVED
from target_spark.tables.model import MaintenanceOptions, PartitionField, Transform

__all__ = [
    "RENAMED_SETTINGS",
    "REQUIREMENTS",
    "SCHEMA",
    "find_faults",
    "former_jobs",
    "get_job_name",
    "get_location",
    "get_path",
    "load_options",
    "shared_folders",
    "spark_settings",
    "with_defaults",
]

_DECIMAL: Final = re.compile(r"([1-9]\d?),(\d\d?)")
_PART_OF: Final = re.compile(r"(year|month|day|hour)\((.+)\)")
_MAX_DIGITS: Final = 38
_MODES: Final = [mode.value for mode in WriteMode]


def _setting(types: str, description: str, **more: Any) -> JsonSchema:
    return {"type": [types, "null"], "description": description, **more}


_OF_STREAMS: Final[JsonSchema] = {
    "write_mode": _setting(
        "string",
        "What a run does to the rows that are there: append, upsert (replace rows of"
        " the same key), overwrite (the table holds this run's rows alone, once the"
        " stream is known to be complete), or scd2 (keep every version of a row, with the"
        " times between which it was valid; Delta Lake, Iceberg). Without it, streams that have"
        " keys are upserted where the format can, all others appended.",
        enum=[*_MODES, None],
    ),
    "catalog": _setting(
        "string",
        "The catalog of Spark that has the tables (spark_catalog: Spark's own, or Hive's"
        " metastore). With path too, their files lie below it; else where the catalog says.",
        minLength=1,
    ),
    "database": _setting(
        "string",
        "The database (schema, namespace) of the catalog that has the tables; it is made where"
        " there is none.",
        minLength=1,
    ),
    "partition_by": _setting(
        "array",
        "Properties by which the files of a new table are divided, or parts of them:"
        " year(x), month(x), day(x), hour(x). Streams that do not have them are left alone.",
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
    "target_file_size": _setting("integer", "How many bytes a file should have.", minimum=1 << 20),
    "hard_delete": _setting(
        "boolean",
        "Remove deleted rows, and with ACTIVATE_VERSION those of other versions. Without it"
        " they get the time in _sdc_deleted_at.",
    ),
}
"""What can be said of all streams, and of each."""

RENAMED_SETTINGS: Final[Mapping[str, str]] = {
    "load_method": "write_mode says how rows go into a table: append, upsert, overwrite or scd2",
    "batch_size_rows": "flush_rows says after how many rows a commit is due",
    "batch_wait_limit_seconds": "flush_seconds says after how long a commit is due",
    "default_target_schema": "database says where a catalog has the tables",
    "validate_records": "each value must be one of its column, and rows that do not fit are set"
    " aside; max_quarantined says how many may be",
    "process_activate_version_messages": "ACTIVATE_VERSION is always obeyed, where the format can"
    " remove rows",
}
"""Settings that targets on singer_sdk 0.54 have, and what serves here instead."""

_UNLESS_GIVEN: Final = LoadOptions("")
"""Where the defaults stand, so that they stand once."""

SCHEMA: Final[JsonSchema] = {
    "type": "object",
    "properties": {
        **_OF_STREAMS,
        "path": _setting(
            "string",
            "Where the tables lie: a folder, or an address that Spark can write"
            " (s3a://..., hdfs://...). Each stream is a table in a folder of its name.",
        ),
        "warehouse": _setting("string", "Another name of path."),
        "format": _setting(
            "string",
            "The format of the tables. Delta Lake and Iceberg can upsert and need a jar, which"
            " is fetched once; Parquet appends and overwrites, and needs none.",
            enum=["delta", "iceberg", "parquet", None],
            default="delta",
        ),
        "streams": _setting(
            "object",
            "Settings of single streams, by name: any of write_mode, table, catalog,"
            " database, partition_by, cluster_by, sort_by, target_file_size and hard_delete.",
            additionalProperties={
                "type": "object",
                "properties": {
                    **_OF_STREAMS,
                    "table": _setting("string", "The name of its table.", minLength=1),
                },
                "additionalProperties": False,
            },
        ),
        "table_prefix": _setting("string", "Put before the name of every table.", default=""),
        "full_refresh": _setting(
            "array",
            "Streams that this run loads anew: their tables are overwritten, whatever their"
            " write_mode is otherwise.",
            items={"type": "string"},
        ),
        "dry_run": _setting(
            "boolean",
            "Read the input and say what would change in the tables; nothing is written, and"
            " no state leaves.",
            default=False,
        ),
        "compact": _setting(
            "boolean",
            "After the last commit, make few large files of many small ones, in each table"
            " that the run wrote to.",
            default=False,
        ),
        "retain_days": _setting(
            "number",
            "After the last commit, remove what tables do not hold any more and is older than"
            " so many days (Delta's vacuum, Iceberg's snapshots). Without it, nothing is.",
            minimum=7,
        ),
        "delete_batch_files": _setting(
            "boolean",
            "Delete the files of BATCH messages once their rows are committed.",
            default=False,
        ),
        SCHEMES_SETTING: _setting(
            "array",
            "Schemes of addresses in BATCH messages that are followed besides local files and"
            " storages of objects (s3, gs, abfs and the like), such as hdfs. Addresses at the"
            " host of path or staging always are.",
            items={"type": "string", "minLength": 1},
        ),
        LINE_SETTING: _setting(
            "integer",
            "The longest line, or value of Parquet, of a BATCH message's file on this machine, in"
            " bytes. In Spark's memory a row takes many times its length.",
            minimum=1,
            default=_UNLESS_GIVEN.batch_limits.line.most,
        ),
        FILES_SETTING: _setting(
            "integer",
            "The most files that one BATCH message may name.",
            minimum=1,
            default=_UNLESS_GIVEN.batch_limits.files,
        ),
        "flush_rows": _setting(
            "integer",
            "A stream's batch is committed at this many rows.",
            minimum=1,
            default=_UNLESS_GIVEN.flush_rows,
        ),
        "flush_bytes": _setting(
            "integer",
            "A stream's batch is committed at this many bytes.",
            minimum=1,
            default=_UNLESS_GIVEN.flush_bytes,
        ),
        "flush_seconds": _setting(
            "number",
            "A stream's batch is committed when its oldest row has waited this long, also"
            " while the tap is silent.",
            exclusiveMinimum=0,
            default=300,
        ),
        "max_spool_bytes": _setting(
            "integer",
            "How many bytes may wait on disk for their commits, over all streams, before"
            " the tap is made to wait. Streams that overwrite are not counted: their rows"
            " wait on disk until the stream is complete.",
            minimum=1,
            default=_UNLESS_GIVEN.spool_bytes,
        ),
        "max_parallel_commits": _setting(
            "integer",
            "How many tables are committed to at the same time.",
            minimum=1,
            default=_UNLESS_GIVEN.writers,
        ),
        "master": _setting(
            "string",
            "Spark's master, as Spark writes it: local[*], spark://host:7077, yarn, ...",
            default="local[*]",
        ),
        "remote": _setting("string", "The address of a Spark Connect server, instead of master."),
        "spark": _setting(
            "object",
            "Any settings of Spark, by their names (spark.driver.memory, ...).",
            propertyNames={"pattern": "^spark\\."},
            additionalProperties={"type": ["string", "number", "boolean"]},
        ),
        "jars": _setting(
            "array",
            "Local paths of the table format's jars, or of a storage's, for machines that"
            " cannot fetch them.",
            items={"type": "string"},
        ),
        "small_runs": _setting(
            "boolean",
            "Let the JVM start fast rather than become fast: less work for runs below about"
            " a million rows, more for larger ones.",
            default=False,
        ),
        "job": _setting(
            "string",
            "The name under which batch numbers and states are kept; one run at a time has"
            " it. Two pipelines that load into one path need one each. Without it, it is"
            " made of format and path, which is resolved first: however it is spelled, and through"
            " symbolic links.",
            minLength=1,
        ),
        "staging": _setting(
            "string",
            "A folder for rows that wait for their commit, or an address (s3a://...). With a"
            " cluster it is needed, and this machine and all executors must have the folder"
            " under one path, or reach the address. Without it, the system's temporary folder.",
        ),
        "strict": _setting(
            "boolean",
            "End the run at a record that is not as its stream declares: of a stream or with a"
            " field that is not declared, with a value of another type, or without a required"
            " field. It stands for outside_catalog: fail, misfits: quarantine and"
            " max_quarantined: 0, and each record is read once more for it.",
            default=False,
        ),
        "max_quarantined": _setting(
            "integer",
            "Stop the run when more rows than this, over all its streams, do not fit their"
            " columns; nothing of the batch that brings them is committed then. As a share"
            " (1%), a stream of which more rows do not fit is not complete, and no state that"
            " covers them leaves. Without it, such rows are set aside in <table>__quarantine"
            " as long as other rows of their stream fit.",
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
            "When the end of the input completes a stream that overwrites: complete, if the"
            " last message is a STATE without progress markers; always, for taps that send"
            " no STATE (a tap that dies then looks like one that is through).",
            enum=["complete", "always", None],
            default="complete",
        ),
        "outside_catalog": _setting(
            "string",
            "What becomes of records of streams that an Airbyte catalog does not have, and of"
            " fields that it does not have: ignore (such records are counted; without a setting"
            " they are, too), or fail.",
            enum=["ignore", "fail", None],
        ),
        "misfits": _setting(
            "string",
            "What becomes of records of an Airbyte source that have a value which does not fit"
            " its column: keep (that value is null, and _airbyte_meta says why; so without a"
            " setting, too), or quarantine.",
            enum=["keep", "quarantine", None],
        ),
        "numbers_as_decimal": _setting(
            "string",
            "Store numbers without multipleOf as decimals of 'digits,places' (38,10 for"
            " example) instead of doubles; those that do not fit are set aside.",
            pattern=_DECIMAL.pattern,
        ),
        "oversized_numbers_as_text": _setting(
            "boolean",
            "Store numbers that are declared with more than 38 digits as text.",
            default=False,
        ),
        "truncate_timestamps": _setting(
            "boolean",
            "Cut date-times that say more than six digits of a second to microseconds. Without"
            " it, such records are set aside, unless the further digits are zeros.",
            default=False,
        ),
        "report": _setting("string", "A file that gets the run's report, as JSON."),
    },
}


def _given(name: str, **more: Any) -> JsonSchema:
    """Return a schema of configurations that give a setting a text that is not empty."""
    return {
        "required": [name],
        "properties": {name: {"type": "string", "minLength": 1, **more}},
    }


_STRICT: Final[Mapping[str, Any]] = {
    "outside_catalog": "fail",
    "misfits": "quarantine",
    "max_quarantined": 0,
}
"""The settings that `strict` stands for."""

_PLACES: Final = ("path", "warehouse", "catalog", "database")
"""Settings of which one must say where tables are."""

REQUIREMENTS: Final[JsonSchema] = {
    "anyOf": [_given(name) for name in _PLACES],
    "allOf": [
        {"not": {"allOf": [_given("path"), _given("warehouse")]}},
        {
            "if": {"anyOf": [_given("remote"), _given("master", **{"not": {"pattern": "^local"}})]},
            "then": _given("staging"),
        },
        {
            "if": _given("remote"),
            "then": {"properties": {"master": {"enum": ["local[*]", "", None]}}},
        },
        {
            "if": {"required": ["strict"], "properties": {"strict": {"const": True}}},
            "then": {"properties": {k: {"enum": [value, None]} for k, value in _STRICT.items()}},
        },
    ],
}
"""The settings that must be given or must not be given together, as keywords beside those of
`SCHEMA`, for clients that check a configuration before they send it.

`faults` says the same in sentences, and also what depends on the format and on Spark's settings.
"""


def get_path(config: Mapping[str, Any]) -> str:
    """Return where the tables lie; empty if nothing says it."""
    return str(config.get("path") or config.get("warehouse") or "")


def find_faults(config: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each fault that the schema cannot see.

    Settings that the schema refuses have faults already, and are not looked at.
    """
    refused = frozenset(name for name, value in config.items() if not _fits(name, value))
    return list(_faults({k: v for k, v in config.items() if k not in refused}, refused))


def _fits(name: str, value: Any) -> bool:
    schema = SCHEMA["properties"].get(name, {})
    return is_trivially_valid(value, schema) or bool(validator_class()(schema).is_valid(value))


def _faults(config: Mapping[str, Any], refused: frozenset[str]) -> Iterator[str]:
    if not get_location(config) and refused.isdisjoint(_PLACES):
        yield (
            "'path' is a required property: the folder or address of the tables; or catalog and"
            " database, for tables in a catalog"
        )
    if config.get("path") and config.get("warehouse"):
        yield "path and warehouse are two names of one setting; give one of them"
    if config.get("strict"):
        for name, value in _STRICT.items():
            if config.get(name) not in (None, value):
                yield (
                    f"{name}: strict stands for {name}: {value}, and this is set to"
                    f" {config[name]}; leave one of the two out"
                )
    yield from validate_combinations(config)
    yield from _faults_of_limit(config.get("max_quarantined"))
    numbers = _DECIMAL.fullmatch(str(config.get("numbers_as_decimal") or "38,0"))
    if numbers and not int(numbers[2]) <= int(numbers[1]) <= _MAX_DIGITS:
        yield f"numbers_as_decimal: at most {_MAX_DIGITS} digits, and no more places than digits"
    if _is_elsewhere(config) and not config.get("staging"):
        yield (
            "'staging' is a required property with a cluster (master, remote): a folder that"
            " this machine and Spark's executors have under one path, or an address that all"
            " of them reach; rows wait there for their commit"
        )


def _faults_of_limit(setting: Any) -> Iterator[str]:
    """Yield what is wrong with a text that bounds the quarantine; the schema sees all else."""
    try:
        QuarantineLimit.parse(setting if isinstance(setting, str) else None)
    except ValueError as error:
        yield f"max_quarantined: {error}"


def get_location(config: Mapping[str, Any]) -> str:
    """Return the place that the tables share: a folder, an address, or a name in a catalog."""
    levels = split_identifier(config.get("catalog"), config.get("database"))
    return get_path(config) or (f"catalog:{'.'.join(levels)}" if levels else "")


def get_job_name(config: Mapping[str, Any]) -> str:
    """Return the name of the job: the setting, or a hash of format and resolved location."""
    return str(config.get("job") or _default_job(config, resolve_address(get_location(config))))


def former_jobs(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names under which earlier releases kept a job that has no name of its own.

    Up to 0.1 a default name was made of the path as it is spelled in the settings.
    """
    former = _default_job(config, to_spark_uri(get_location(config)).rstrip("/"))
    return () if config.get("job") or former == get_job_name(config) else (former,)


def _default_job(config: Mapping[str, Any], location: str) -> str:
    levels = split_identifier(config.get("catalog"), config.get("database"))
    tables = " ".join(filter(None, [location, *levels]))
    place = f"{with_defaults(config)['format']} {tables}"
    return hashlib.sha256(place.encode()).hexdigest()[:16]


def with_defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without those that are null, with defaults and what `strict` is."""
    defaults = {
        name: setting["default"]
        for name, setting in SCHEMA["properties"].items()
        if "default" in setting
    }
    given = {key: value for key, value in config.items() if value is not None}
    return {**defaults, **given, **(_STRICT if given.get("strict") else {})}


def load_options(config: Mapping[str, Any]) -> LoadOptions:
    """Return what the loader is told; the configuration has been checked."""
    given = with_defaults(config)
    return LoadOptions(
        path=get_path(given),
        format=given["format"],
        every=_stream_options(given),
        streams={name: _stream_options(own) for name, own in given.get("streams", {}).items()},
        full_refresh=frozenset(given.get("full_refresh", ())),
        table_prefix=given["table_prefix"],
        flush_rows=given["flush_rows"],
        flush_bytes=given["flush_bytes"],
        flush_seconds=given["flush_seconds"],
        spool_bytes=given["max_spool_bytes"],
        writers=given["max_parallel_commits"],
        max_quarantined=QuarantineLimit.parse(given.get("max_quarantined")),
        always_overwrite=given.get("overwrite_on_eof") == "always",
        delete_files=given["delete_batch_files"],
        batch_limits=FileLimits.from_config(given),
        columns=_column_options(given),
        dry_run=given["dry_run"],
        care=MaintenanceOptions(given["compact"], given.get("retain_days")),
        staging=given.get("staging"),
        strict=given["strict"],
    )


def _stream_options(config: Mapping[str, Any]) -> StreamOptions:
    mode = config.get("write_mode")
    return StreamOptions(
        write_mode=WriteMode(mode) if mode else None,
        table=config.get("table"),
        catalog=config.get("catalog"),
        database=config.get("database"),
        partition_by=tuple(map(_partition, config.get("partition_by") or ())),
        cluster_by=tuple(config.get("cluster_by") or ()),
        sort_by=tuple(config.get("sort_by") or ()),
        file_bytes=config.get("target_file_size"),
        hard_delete=config.get("hard_delete"),
    )


def _partition(text: str) -> PartitionField:
    """Read ``x`` or ``day(x)``; a property of that very spelling is the property."""
    found = _PART_OF.fullmatch(text)
    return PartitionField(found[2], cast("Transform", found[1])) if found else PartitionField(text)


def _column_options(config: Mapping[str, Any]) -> ColumnOptions:
    numbers = _DECIMAL.fullmatch(config.get("numbers_as_decimal") or "")
    return ColumnOptions(
        plain_numbers=Decimal(int(numbers[1]), int(numbers[2])) if numbers else None,
        oversized_as_text=bool(config.get("oversized_numbers_as_text")),
        cut_timestamps=bool(config.get("truncate_timestamps")),
        metadata=bool(config.get("add_record_metadata")),
        reserved=RESERVED.get(config["format"], frozenset()),
    )


def _is_elsewhere(config: Mapping[str, Any]) -> bool:
    """Tell whether rows are worked on by processes that are not on this machine alone."""
    master = str(config.get("master") or "local")
    return bool(config.get("remote")) or not master.startswith("local")


def shared_folders(config: Mapping[str, Any], scratch: str = "") -> dict[str, str]:
    """Return the folders that the executors of a cluster must see, by setting.

    ``scratch`` is a private folder in ``staging``.
    """
    if not _is_elsewhere(config):
        return {}
    tables = "" if config.get("dry_run") else get_path(config)
    places = {"staging": str(config.get("staging") or ""), "path": tables}
    found = {name: to_local_folder(place) for name, place in places.items() if place}
    folders = {name: str(folder) for name, folder in found.items() if folder is not None}
    return {**folders, "staging": scratch} if scratch and "staging" in folders else folders


def spark_settings(config: Mapping[str, Any], scratch: str = "") -> SparkSettings:
    """Return how Spark is to be started; ``scratch`` is a private folder for it.

    Only a run has one: it begins by letting the executors try their folders.
    """
    return SparkSettings(
        master=config.get("master") or "local[*]",
        remote=config.get("remote"),
        conf={key: _spark_text(value) for key, value in (config.get("spark") or {}).items()},
        format=with_defaults(config)["format"],
        small_runs=bool(config.get("small_runs")),
        jars=tuple(config.get("jars") or ()),
        addresses=tuple(filter(None, (get_path(config), config.get("staging")))),
        scratch=scratch,
        shared=shared_folders(config, scratch) if scratch else {},
    )


def _spark_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
