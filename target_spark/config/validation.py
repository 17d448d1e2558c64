"""Validation of settings that conflict with each other or with the table format.

The settings that are passed fit their JSON Schema. Each error text begins with the name of the
invalid setting and ends with the remedy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from tap_core.exceptions import ConfigurationError
from tap_core.protocols.error_classification import describe_unencodable
from target_spark.config.options import APPENDING_FORMATS, WriteMode, split_identifier, uses_paths
from target_spark.spark.exact_value_conf import describe_conflict, find_conflicts
from target_spark.storage.uris import get_scheme, is_azure, is_s3, to_local_folder, to_spark_scheme
from target_spark.tables.identifiers import fold_case, is_valid_folder_name

__all__ = ["iterate_settings", "uses_spark_catalog", "validate_combinations"]

_DEFAULT_MASTER: Final = "local[*]"
_MAX_CLUSTER_COLUMNS: Final = 4
_ADDRESSES: Final = ("path", "warehouse", "staging")
"""Settings that are a path or URL."""

_SPARK_CATALOG_NAME: Final = re.compile(r"[A-Za-z0-9_]+")
_SPARK_CATALOG: Final = "spark_catalog"
_CATALOG_CONF: Final = "spark.sql.catalog."
_DELTA_CONF: Final = "spark.databricks.delta."
_MODES_WITH_KEYS: Final = frozenset({WriteMode.UPSERT.value, WriteMode.SCD2.value})
_UNSUPPORTED_BY_PARQUET: Final[Mapping[str, str]] = {
    "catalog": "parquet tables are folders below path; remove it, or set format to delta",
    "database": "parquet tables are folders below path; remove it, or set format to delta",
    "partition_by": "parquet folders are not partitioned; sort_by orders their rows, and the"
    " formats delta and iceberg can partition",
    "cluster_by": "parquet folders are not clustered; sort_by orders their rows",
    "compact": "parquet folders are not compacted; write larger batches (flush_rows,"
    " flush_bytes, flush_seconds), or set format to delta",
    "retain_days": "parquet folders keep no old files that could be deleted; remove it",
}

_Settings = Mapping[str, Any]


def validate_combinations(config: _Settings) -> Iterator[str]:
    """Yield an error text for each invalid combination of settings.

    An example is ``write_mode: upsert`` with Parquet tables. The text also contains the remedy.
    """
    if unusable := list(_check_local_folders(config)):
        yield from unusable
        return  # the other checks need the absolute paths
    table_format = config.get("format") or "delta"
    for prefix, settings, merged in iterate_settings(config):
        yield from _check_format(table_format, prefix, settings)
        yield from _check_location(table_format, prefix, settings, merged)
        yield from _check_layout(table_format, prefix, merged)
    yield from _check_addresses(table_format, config)
    yield from _check_table_prefix(config)
    yield from _check_shared_tables(config)
    yield from _check_full_refresh(config)
    yield from _check_remote(config)
    yield from _check_exact_values(config)
    yield from _check_small_batches(table_format, config)
    yield from _check_report(config)


def _streams(config: _Settings) -> Iterable[tuple[str, _Settings]]:
    return (config.get("streams") or {}).items()


def iterate_settings(config: _Settings) -> Iterator[tuple[str, _Settings, _Settings]]:
    """Yield the settings for all streams, and then those of each single stream in ``streams``.

    Each item is a tuple: the prefix of setting names in messages, such as "streams.users."; the
    settings as the user wrote them; and the effective settings, which combine those for all streams
    with those of the stream.
    """
    yield "", config, config
    for name, settings in _streams(config):
        yield f"streams.{name}.", settings, _merge(settings, config)


def _merge(special: _Settings, general: _Settings) -> _Settings:
    """Return the settings for all streams, overridden by those of a stream."""
    return {**general, **{key: value for key, value in special.items() if value not in (None, [])}}


# Limits of the formats


def _check_format(table_format: str, prefix: str, settings: _Settings) -> Iterator[str]:
    mode = settings.get("write_mode")
    if table_format not in APPENDING_FORMATS:
        return
    if mode in _MODES_WITH_KEYS:
        yield (
            f"{prefix}write_mode: {table_format} cannot replace rows by key, as {mode} asks."
            f" Set format to delta, or {prefix}write_mode to append or overwrite"
        )
    for setting, reason in _UNSUPPORTED_BY_PARQUET.items():
        if settings.get(setting):
            yield f"{prefix}{setting}: {reason}"


def _check_layout(table_format: str, prefix: str, merged: _Settings) -> Iterator[str]:
    clustered, partitioned = merged.get("cluster_by") or [], merged.get("partition_by")
    if table_format == "iceberg" and clustered:
        yield (
            f"{prefix}cluster_by: iceberg does not support clustering; use partition_by and"
            " sort_by, or set format to delta"
        )
    if table_format != "delta":
        return
    if clustered and partitioned:
        yield (
            f"{prefix}cluster_by: a Delta table is either clustered or partitioned; remove"
            f" {prefix}cluster_by or {prefix}partition_by"
        )
    if len(clustered) > _MAX_CLUSTER_COLUMNS:
        yield f"{prefix}cluster_by: Delta supports at most {_MAX_CLUSTER_COLUMNS} properties"


def _check_report(config: _Settings) -> Iterator[str]:
    if config.get("report_html") and config.get("run_history") is False:
        yield (
            "report_html: the page shows the runs in the table of runs, which run_history false"
            " leaves out; remove one of the two settings"
        )


def _check_small_batches(table_format: str, config: _Settings) -> Iterator[str]:
    """Yield an error text for each setting that conflicts with ``small_batches: delta-rs``.

    With this value, the library delta-rs writes small batches. It ignores such settings.
    """
    if config.get("small_batches") != "delta-rs":
        return
    if table_format != "delta":
        yield (
            f"small_batches: delta-rs writes Delta tables only, and format is {table_format};"
            " set format to delta, or remove small_batches"
        )
    for name in config.get("spark") or ():
        if name.startswith(_DELTA_CONF):
            yield (
                f"small_batches: delta-rs does not read {name}; remove that setting, or"
                " small_batches"
            )


def _check_remote(config: _Settings) -> Iterator[str]:
    """Yield an error text for each setting that conflicts with ``remote`` (Spark Connect)."""
    if not config.get("remote"):
        return
    yield from _check_remote_address(config["remote"])
    if (config.get("master") or _DEFAULT_MASTER) != _DEFAULT_MASTER:
        yield "master and remote exclude each other; set only one of them"
    if config.get("jars"):
        yield "jars: a client cannot add jars to a server; start the server with them and remove it"
    if config.get("staging") and _is_url(config["staging"]):
        yield (
            "staging: with remote it must be a folder that has the same path on this machine and"
            " on the server; a URL is supported only with master"
        )
    path = str(config.get("path") or config.get("warehouse") or "")
    if config.get("retain_days") and config.get("format") == "iceberg" and path and _is_url(path):
        yield (
            f"retain_days: the files in {path} cannot be listed through remote; remove it, or"
            " run maintenance with master"
        )


def _check_remote_address(remote: str) -> Iterator[str]:
    if not remote.startswith("sc://"):
        yield "remote: the address of a Spark Connect server begins with sc:// (sc://host:15002)"
    if "session_id=" in remote:
        yield "remote: each writer thread has its own session; remove session_id"
    try:
        urlsplit(remote)
    except ValueError:
        yield "remote: the host in the address is not valid; write sc://host:15002"


def _check_exact_values(config: _Settings) -> Iterator[str]:
    """Yield an error text for each Spark setting that would make Spark store inexact values.

    An example is a legacy mode that changes dates.
    """
    conf = {key: str(value) for key, value in (config.get("spark") or {}).items()}
    for key, needed in find_conflicts(conf):
        yield f"spark: {describe_conflict(key, conf[key], needed)}"


# Locations of tables


def _check_local_folders(config: _Settings) -> Iterator[str]:
    """Yield an error text for each path that this process cannot use.

    It begins with the home folder of an unknown user, or has a character that the encoding of paths
    does not have.
    """
    paths = [(setting, config.get(setting)) for setting in _ADDRESSES]
    for setting, path in (*paths, *(("jars", jar) for jar in config.get("jars") or ())):
        try:
            os.fsencode(to_local_folder(path or "") or "")
        except ConfigurationError as error:  # noqa: PERF203  (there are few paths)
            yield f"{setting}: {error}"
        except UnicodeEncodeError as error:
            yield f"{setting}: {describe_unencodable(error)}"


def _check_addresses(table_format: str, config: _Settings) -> Iterator[str]:
    """Yield an error text for each URL in the settings that Spark or the format cannot use.

    Examples are S3 URLs with credentials, and remote URLs for Parquet tables.
    """
    for setting in _ADDRESSES:
        address = config.get(setting)
        if not address:
            continue
        spark_address, has_user = to_spark_scheme(address), "@" in _get_authority(address)
        if is_azure(spark_address) and not has_user:
            yield (
                f"{setting}: the address names no storage account; write"
                " abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER"
            )
        elif is_s3(spark_address) and has_user:
            yield (
                f"{setting}: the address contains credentials, which S3 does not read there; remove"
                " them, and set spark.hadoop.fs.s3a.access.key and spark.hadoop.fs.s3a.secret.key"
                " in the setting spark"
            )
        elif setting != "staging" and table_format in APPENDING_FORMATS and _is_url(address):
            yield (
                f"{setting}: {table_format} tables must be in local or mounted folders, because"
                f" a commit renames a file. Set format to delta or iceberg,"
                f" which can commit to {get_scheme(address)}://... as well; or set a folder"
            )


def _get_authority(address: str) -> str:
    """Return the part of a URL between ``//`` and the path, such as ``user@host``.

    Unlike `urllib.parse.urlsplit`, this raises no error for an invalid host.
    """
    return address.partition("://")[2].partition("/")[0]


def _is_url(address: str) -> bool:
    return to_local_folder(address) is None


def _check_location(
    table_format: str, prefix: str, settings: _Settings, merged: _Settings
) -> Iterator[str]:
    """Yield an error text for each invalid catalog, database or table name.

    ``settings`` has the settings of one stream as the user wrote them, and ``merged`` its effective
    settings. Or both have the settings for all streams. ``prefix`` precedes names in the text.
    """
    levels = split_identifier(merged.get("catalog"), merged.get("database"))
    if not levels or uses_paths(table_format, merged.get("catalog")):
        yield from _check_folder_names(prefix, settings)
        return
    if table_format in APPENDING_FORMATS:
        return
    if settings.get("catalog") or settings.get("database"):
        yield from _check_catalog(prefix, merged)
    table = settings.get("table")
    if table and uses_spark_catalog(merged) and not _SPARK_CATALOG_NAME.fullmatch(table):
        yield f"{prefix}table: {table!r} is not a valid name; use letters, digits and '_' only"


def _check_folder_names(prefix: str, settings: _Settings) -> Iterator[str]:
    named = {"table": settings.get("table"), "database": settings.get("database")}
    for setting, name in named.items():
        parts = name.split(".") if name and setting == "database" else [name]
        if name and not all(map(is_valid_folder_name, parts)):
            yield (
                f"{prefix}{setting}: {name!r} cannot be the name of a folder that all readers"
                " see; use letters, digits, '-', '.' and '_', and no '.' or '_' at the start"
            )


def _check_catalog(prefix: str, merged: _Settings) -> Iterator[str]:
    catalog, database = merged.get("catalog"), merged.get("database")
    if uses_spark_catalog(merged):
        yield from _check_spark_catalog_location(prefix, merged)
        if database and not _SPARK_CATALOG_NAME.fullmatch(database):
            yield (
                f"{prefix}database: {database!r} is not a valid database name in"
                f" {_SPARK_CATALOG}; use letters, digits and '_' only, or set another catalog"
            )
        return
    setting = f"{_CATALOG_CONF}{catalog}"
    if setting not in (merged.get("spark") or {}) and "SPARK_CONF_DIR" not in os.environ:
        yield (
            f"{prefix}catalog: Spark knows no catalog {catalog!r}; add {setting} and its options"
            f" to the setting spark, or set catalog to {_SPARK_CATALOG}"
        )


def _check_spark_catalog_location(prefix: str, merged: _Settings) -> Iterator[str]:
    """Yield an error text if tables in Spark's own catalog would have no permanent location.

    An in-memory catalog needs the setting ``path``. Hive's metastore needs ``path`` or
    ``spark.sql.warehouse.dir``.
    """
    spark = merged.get("spark") or {}
    if merged.get("path") or merged.get("warehouse") or f"{_CATALOG_CONF}{_SPARK_CATALOG}" in spark:
        return
    if spark.get("spark.sql.catalogImplementation") != "hive":
        yield (
            f"{prefix}database: Spark's own catalog is in memory and forgets its tables when the"
            " run ends. Set path, below which their files are then stored; or, for a Hive"
            " metastore, set spark.sql.catalogImplementation to hive in the setting spark"
        )
    elif "spark.sql.warehouse.dir" not in spark:
        yield (
            f"{prefix}database: the location of its tables is not set: set"
            " spark.sql.warehouse.dir in the setting spark for managed tables, or path"
        )


def uses_spark_catalog(merged: _Settings) -> bool:
    """Return True if tables are registered in Spark's own catalog, ``spark_catalog``.

    This catalog is in memory or in Hive's metastore.

    Args:
        merged: The settings for all streams, overridden by those of a single stream if it has any.
    """
    default = (merged.get("spark") or {}).get("spark.sql.defaultCatalog")
    return (merged.get("catalog") or default or _SPARK_CATALOG) == _SPARK_CATALOG


def _check_table_prefix(config: _Settings) -> Iterator[str]:
    prefix = config.get("table_prefix")
    if not prefix:
        return
    if split_identifier(config.get("catalog"), config.get("database")):
        if prefix != fold_case(prefix) or not _SPARK_CATALOG_NAME.fullmatch(prefix):
            yield "table_prefix: in a catalog use lower-case letters, digits and '_' only"
    elif not is_valid_folder_name(prefix):
        yield (
            f"table_prefix: {prefix!r} cannot begin the name of a folder that all readers see;"
            " use letters, digits, '-', '.' and '_', and no '.' or '_' at the start"
        )


def _check_shared_tables(config: _Settings) -> Iterator[str]:
    """Yield an error text for each stream that is configured to use another stream's table."""
    owners: dict[str, str] = {}
    for name, settings in _streams(config):
        if not settings.get("table"):
            continue
        merged = _merge(settings, config)
        levels = split_identifier(merged.get("catalog"), merged.get("database"))
        location = (
            fold_case(".".join((*levels, settings["table"]))) if levels else settings["table"]
        )
        other = owners.setdefault(location, name)
        if other != name:
            yield (
                f"streams.{name}.table: {settings['table']!r} is also the table of stream {other};"
                " set a different table for each"
            )


def _check_full_refresh(config: _Settings) -> Iterator[str]:
    modes = {
        name: _merge(settings, config).get("write_mode") for name, settings in _streams(config)
    }
    for name in config.get("full_refresh") or ():
        if modes.get(name, config.get("write_mode")) == WriteMode.SCD2.value:
            yield (
                f"full_refresh: stream {name} keeps the history of its rows (scd2), which a"
                " full refresh would drop. Remove it from full_refresh; or set its write_mode"
                " to overwrite for this run to drop the history"
            )
