"""Allowlist of the settings and Spark properties that a gRPC call of Fivetran may set.

Other settings are rejected, because any client that reaches the port can send a configuration. An
allowed setting cannot start a program, load a class or jar of the client's choice, listen on a
port, access local files outside the tables' folder, or send the operator's credentials elsewhere.
Settings from the operator's environment variables are not checked. Source: the configuration pages
of Spark 4.1, Hadoop 3.4 (S3A, ABFS), Delta Lake 4 and Iceberg 1.12.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from tap_core.exceptions import ConfigurationError
from tap_core.protocols.fivetran.allowed_names import AllowedNames, get_variable_name, parse_names
from target_spark.errors import BatchFileLoadError
from target_spark.storage.uris import to_local_folder, to_spark_scheme

__all__ = ["SETTINGS", "CallRules", "find_value_pattern"]

SETTINGS: Final = frozenset(
    {
        # Location and layout of tables
        "path",
        "warehouse",
        "format",
        "catalog",
        "database",
        "table_prefix",
        "streams",
        "write_mode",
        "partition_by",
        "cluster_by",
        "sort_by",
        "target_file_size",
        "hard_delete",
        "full_refresh",
        "numbers_as_decimal",
        "oversized_numbers_as_text",
        "truncate_timestamps",
        "add_record_metadata",
        # Options of a load
        "compact",
        "retain_days",
        "flush_rows",
        "flush_bytes",
        "flush_seconds",
        "max_spool_bytes",
        "max_parallel_commits",
        "max_quarantined",
        "strict",
        "overwrite_on_eof",
        "outside_catalog",
        "misfits",
        "small_runs",
        "small_batches",
        "job",
        "dry_run",
        # Spark keys, each of which is checked
        "spark",
    }
)
"""Settings of target-spark that a gRPC call of Fivetran may set.

Of the setting ``spark``, only the properties in `_RULES` are allowed."""

_SPARK: Final = "spark"

_TABLE_NAMES: Final = ("table", "table_prefix")
"""Settings that are part of a table's path, so that their values could lead to another folder."""

# Values --------------------------------------------------------------------------------------

_BOOL: Final = r"true|false"
_NUMBER: Final = r"-?\d{1,18}"
_FRACTION: Final = r"0?\.\d{1,6}"
_SIZE: Final = r"-?\d{1,15}[kmgtKMGT]?[bB]?"
_TIME: Final = r"\d{1,12}(us|ms|s|m|min|h|d)?"
_WORD: Final = r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}"
_INTERVAL: Final = r"(interval )?\d{1,9} [a-z]{3,12}"
_TEXT: Final = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{0,8192}"
_URL: Final = r"https?://[^\s\x00-\x1f\x7f-\x9f]{1,2000}"
_ENDPOINT: Final = r"(https?://)?[A-Za-z0-9.-]{1,253}(:\d{1,5})?/?"

_REFERENCE_START: Final = "${"
"""Start of a reference such as ``${env.HOME}``. Spark or Hadoop replace references by values from
the server's environment."""

# Keys ----------------------------------------------------------------------------------------

_S3A: Final = r"spark\.hadoop\.fs\.s3a\.(bucket\.[a-z0-9-]{3,63}\.)?"
_ABFS: Final = r"spark\.hadoop\.fs\.azure\."
_AZURE_ACCOUNT: Final = r"(\.[a-z0-9]{3,24}\.(dfs|blob)\.core\.[a-z.]{3,40})"
_GOOGLE_AUTH: Final = r"spark\.hadoop\.(fs\.gs|google\.cloud)\.auth\.service\.account\."
_CATALOG: Final = r"spark\.sql\.catalog\.[A-Za-z0-9_-]{1,100}"
_ICEBERG: Final = rf"{_CATALOG}\.table-(default|override)\."
_DELTA: Final = r"spark\.databricks\.delta\."
_DELTA_PROPERTY: Final = rf"{_DELTA}properties\.defaults\."

_CATALOG_TYPES: Final = "hadoop|rest|glue"
"""Regular expression for the Iceberg catalog types that a call may use.

Other types can load code that the client chooses: Hive functions in jars, or JDBC drivers.
"""

_CATALOG_CLASSES: Final = (
    r"org\.apache\.iceberg\.spark\.Spark(Session)?Catalog"
    r"|org\.apache\.spark\.sql\.delta\.catalog\.DeltaCatalog"
)

_RULES: Final = tuple(
    (re.compile(key), re.compile(value))
    for key, value in (
        # Memory, cores and tasks
        (r"spark\.(driver|executor)\.memory(Overhead)?", _SIZE),
        (r"spark\.driver\.maxResultSize", _SIZE),
        (r"spark\.(executor\.(cores|instances)|cores\.max|default\.parallelism)", _NUMBER),
        (r"spark\.memory\.(storageF|f)raction", _FRACTION),
        (r"spark\.dynamicAllocation\.enabled", _BOOL),
        (r"spark\.dynamicAllocation\.(min|max|initial)Executors", _NUMBER),
        (r"spark\.network\.timeout", _TIME),
        (r"spark\.io\.encryption\.enabled", _BOOL),
        # SQL
        (r"spark\.sql\.shuffle\.partitions", _NUMBER),
        (r"spark\.sql\.adaptive\.(enabled|coalescePartitions\.enabled|skewJoin\.enabled)", _BOOL),
        (r"spark\.sql\.(autoBroadcastJoinThreshold|files\.maxPartitionBytes)", _SIZE),
        (r"spark\.sql\.files\.maxRecordsPerFile", _NUMBER),
        (r"spark\.sql\.broadcastTimeout", _TIME),
        (r"spark\.sql\.parquet\.compression\.codec", _WORD),
        (r"spark\.sql\.defaultCatalog", _WORD),
        # Delta Lake
        (rf"{_DELTA}snapshotPartitions", _NUMBER),
        (rf"{_DELTA}(optimizeWrite|autoCompact|merge\.repartitionBeforeWrite)\.enabled", _BOOL),
        (rf"{_DELTA_PROPERTY}enable(DeletionVectors|ChangeDataFeed|RowTracking)", _BOOL),
        (rf"{_DELTA_PROPERTY}autoOptimize\.(optimizeWrite|autoCompact)", _BOOL),
        (rf"{_DELTA_PROPERTY}(logRetention|deletedFileRetention)Duration", _INTERVAL),
        (rf"{_DELTA_PROPERTY}(checkpointInterval|dataSkippingNumIndexedCols)", _NUMBER),
        (rf"{_DELTA_PROPERTY}(minReaderVersion|minWriterVersion|targetFileSize)", _SIZE),
        (rf"{_DELTA_PROPERTY}(columnMapping\.mode|checkpointPolicy|isolationLevel)", _WORD),
        # Catalogs
        (_CATALOG, _CATALOG_CLASSES),
        (rf"{_CATALOG}\.type", _CATALOG_TYPES),
        (rf"{_CATALOG}\.(uri|oauth2-server-uri|s3\.endpoint)", _URL),
        (rf"{_CATALOG}\.(warehouse|credential|token|scope|audience|resource|prefix)", _TEXT),
        (rf"{_CATALOG}\.header\.[A-Za-z0-9-]{{1,100}}", _TEXT),
        (rf"{_CATALOG}\.(cache-enabled|s3\.path-style-access)", _BOOL),
        (rf"{_CATALOG}\.(default-namespace|glue\.id|client\.region)", _WORD),
        (rf"{_CATALOG}\.s3\.(access-key-id|secret-access-key|session-token)", _TEXT),
        (rf"{_ICEBERG}format-version", _NUMBER),
        (rf"{_ICEBERG}write\.(format\.default|(delete|update|merge|distribution)[.-]mode)", _WORD),
        (rf"{_ICEBERG}write\.parquet\.compression-(codec|level)", _WORD),
        (rf"{_ICEBERG}write\.(parquet\.)?[a-z-]{{1,40}}-size-bytes", _NUMBER),
        (rf"{_ICEBERG}write\.metadata\.delete-after-commit\.enabled", _BOOL),
        (rf"{_ICEBERG}write\.metadata\.(previous-versions-max|compression-codec)", _WORD),
        (rf"{_ICEBERG}(commit\.retry|history\.expire)\.[a-z-]{{1,40}}", _NUMBER),
        # Amazon S3 and compatible storages
        (rf"{_S3A}endpoint", _ENDPOINT),
        (rf"{_S3A}endpoint\.region", _WORD),
        (rf"{_S3A}(access\.key|secret\.key|session\.token)", _TEXT),
        (
            rf"{_S3A}(path\.style\.access|connection\.ssl\.enabled|requester\.pays\.enabled)",
            _BOOL,
        ),
        (rf"{_S3A}(connection\.maximum|attempts\.maximum|retry\.limit|threads\.max)", _NUMBER),
        (rf"{_S3A}(connection\.(establish\.)?timeout|retry\.interval)", _TIME),
        (rf"{_S3A}(multipart\.(size|threshold)|block\.size)", _SIZE),
        (rf"{_S3A}(encryption\.algorithm|server-side-encryption-algorithm)", _WORD),
        (rf"{_S3A}(encryption\.key|server-side-encryption\.key|encryption\.context)", _TEXT),
        (rf"{_S3A}(acl\.default|create\.storage\.class)", _WORD),
        # Azure
        (rf"{_ABFS}account\.auth\.type{_AZURE_ACCOUNT}?", "SharedKey|OAuth|SAS"),
        (rf"{_ABFS}(account\.key|sas\.fixed\.token){_AZURE_ACCOUNT}", _TEXT),
        (rf"{_ABFS}sas\.fixed\.token", _TEXT),
        (rf"{_ABFS}account\.oauth2\.client\.(id|secret){_AZURE_ACCOUNT}?", _TEXT),
        (rf"{_ABFS}account\.oauth2\.client\.endpoint{_AZURE_ACCOUNT}?", _URL),
        (
            # The other classes use the machine's identity, or read a file.
            rf"{_ABFS}account\.oauth\.provider\.type{_AZURE_ACCOUNT}?",
            r"org\.apache\.hadoop\.fs\.azurebfs\.oauth2\.ClientCredsTokenProvider",
        ),
        # Google
        (rf"{_GOOGLE_AUTH}(email|private\.key\.id)", _TEXT),
        (rf"{_GOOGLE_AUTH}private\.key", r"[^\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f]{0,8192}"),
        (r"spark\.hadoop\.fs\.gs\.project\.id", _WORD),
    )
)
"""Spark properties that a call may set: pairs of patterns for the name and for the value."""


def find_value_pattern(key: str) -> re.Pattern[str] | None:
    """Return the pattern of allowed values for the Spark property ``key`` in a gRPC call.

    Return None if a call must not set the property.
    """
    return next((value for pattern, value in _RULES if pattern.fullmatch(key)), None)


def _find_stream_settings(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the name and value of each setting of a single stream, from the setting ``streams``."""
    streams = config.get("streams")
    for settings in streams.values() if isinstance(streams, Mapping) else ():
        if isinstance(settings, Mapping):
            yield from settings.items()


@dataclass(frozen=True, slots=True)
class CallRules:
    """Rules for settings that a gRPC call of Fivetran may have. The operator can extend them.

    Attributes:
        allowance: Names of settings that calls may set in addition to `SETTINGS`.
        roots: Folders and URLs that may contain tables; empty to allow any location.
        folders: Folders that may contain batch files; empty to allow any folder.
        roots_variable: The environment variable that sets ``roots``, for messages.
        folders_variable: The environment variable that sets ``folders``, for messages.
    """

    allowance: AllowedNames
    roots: tuple[str, ...] = ()
    folders: tuple[Path, ...] = ()
    roots_variable: str = ""
    folders_variable: str = ""

    @classmethod
    def of(cls, plugin: str, environment: Mapping[str, str]) -> CallRules:
        """Return the rules that environment variables such as ``TARGET_SPARK_ALLOW_PATHS`` define.

        Args:
            plugin: The name of the program. The prefix of the variables is derived from it.
            environment: The environment variables.
        """
        roots_variable = get_variable_name(plugin, "ALLOW_PATHS")
        folders_variable = get_variable_name(plugin, "ALLOW_FILES")
        folders = parse_names(environment.get(folders_variable))
        return cls(
            AllowedNames.of(plugin, environment),
            parse_names(environment.get(roots_variable)),
            tuple(Path(folder).resolve() for folder in folders),
            roots_variable,
            folders_variable,
        )

    def check(self, config: Mapping[str, Any]) -> None:
        """Check that a gRPC call may set all settings in ``config``.

        Raises:
            ConfigurationError: A setting or its value is not allowed. The message names all such
                settings, without their values, and the variable that would allow them.
        """
        spark = config.get(_SPARK)
        conf: Mapping[str, Any] = spark if isinstance(spark, Mapping) else {}
        of_streams = (name for name, _ in _find_stream_settings(config) if name != "table")
        names = dict.fromkeys(name for name in (*config, *of_streams) if name not in SETTINGS)
        # The object ``spark`` is checked key by key, also if the operator allowed ``spark``.
        keys = (key for key in conf if find_value_pattern(key) is None)
        self.allowance.check([*names, *keys], SETTINGS)
        faults = [
            *self._find_disallowed_values(config, conf),
            *self._find_disallowed_locations(config, conf),
        ]
        if faults:
            raise ConfigurationError("; ".join(faults))

    def check_file(self, path: str) -> str:
        """Check that a batch file is in an allowed folder; return its path without symbolic links.

        If the operator has not restricted the folders, return the path unchanged.

        Raises:
            BatchFileLoadError: The file is not in a folder that the operator allows.
        """
        if not self.folders:
            return path
        real = None if "\0" in path else _follow_links(path)
        if real is None or not any(real.is_relative_to(folder) for folder in self.folders):
            raise BatchFileLoadError(
                "A batch file of the call is not in a folder that the operator of this destination"
                f" allows ({self.folders_variable})."
            )
        return str(real)

    def _find_disallowed_values(
        self, config: Mapping[str, Any], conf: Mapping[str, Any]
    ) -> Iterator[str]:
        """Yield a message for each setting or Spark property that has a forbidden value.

        ``conf`` has the Spark properties in the setting ``spark`` of the call's ``config``.
        """
        for key, value in conf.items():
            pattern = find_value_pattern(key)
            if pattern is None or self.allowance.allows(key):
                continue
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if _REFERENCE_START in text or not pattern.fullmatch(text):
                yield (
                    f"{key}: a call may not set it to this value. The operator of this server"
                    f" allows any by {self.allowance.variable}={key}"
                )
        for name, value in config.items():
            if name == _SPARK or self.allowance.allows(name):
                continue
            if any(map(_has_forbidden_text, _iterate_strings(value))):
                yield (
                    f"{name}: a call may not use '{_REFERENCE_START}', control characters or more"
                    " than 8,192 characters in it"
                )
        yield from self._find_untyped_catalogs(conf)

    def _find_untyped_catalogs(self, conf: Mapping[str, Any]) -> Iterator[str]:
        """Yield a message for each Iceberg catalog in Spark properties that has no type.

        Without a type, Iceberg would use a Hive catalog, but calls may not use one.
        """
        for key, value in conf.items():
            is_catalog = re.fullmatch(_CATALOG, key) and "iceberg" in str(value).lower()
            if is_catalog and f"{key}.type" not in conf and not self.allowance.allows(key):
                yield f"{key}.type: a call that names a catalog must set it ({_CATALOG_TYPES})"

    def _find_disallowed_locations(
        self, config: Mapping[str, Any], conf: Mapping[str, Any]
    ) -> Iterator[str]:
        """Yield a message for each setting that could put tables outside the allowed ``roots``.

        ``conf`` has the Spark properties in the setting ``spark`` of the call's ``config``.
        """
        if not self.roots:
            return
        paths = {name: str(config[name]) for name in ("path", "warehouse") if config.get(name)}
        for name, path in paths.items():
            if not self._is_allowed_location(path):
                yield (
                    f"{name}: the operator of this server allows tables only in certain places"
                    f" ({self.roots_variable}), and this is not one of them"
                )
        parents = paths.values() or self.roots
        for name, text in (*config.items(), *_find_stream_settings(config)):
            if name in _TABLE_NAMES and not all(
                self._is_allowed_location(f"{parent}/{text}") for parent in parents
            ):
                yield (
                    f"{name}: the name leads to another folder, and the operator of this server"
                    f" allows tables only in certain places ({self.roots_variable})"
                )
        for key in conf:
            if key.startswith("spark.sql.catalog.") and not self.allowance.allows(key):
                yield (
                    f"{key}: a call may not configure a catalog, because the operator of this"
                    f" server restricts the places of tables ({self.roots_variable})"
                )

    def _is_allowed_location(self, address: str) -> bool:
        try:
            return any(_is_below(address, root) for root in self.roots)
        except ValueError:  # an invalid host, or a null character in a path
            return False


def _iterate_strings(value: Any) -> Iterator[str]:
    """Yield all strings in a JSON value at any depth, including the keys of objects."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _iterate_strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _iterate_strings(inner)


def _has_forbidden_text(text: str) -> bool:
    """Return True if a text is too long, or contains control characters or a reference (``${``)."""
    return _REFERENCE_START in text or re.fullmatch(_TEXT, text) is None


def _follow_links(path: str | Path) -> Path:
    """Return a path without symbolic links.

    Unlike `Path.resolve`, this function raises no error for links in a circle.
    """
    return Path(os.path.realpath(path))


def _is_below(address: str, root: str) -> bool:
    """Return True if a path or URL is equal to ``root`` or below it.

    Return False if the path contains ``..``, because Python and Hadoop may resolve it differently.
    """
    if ".." in unquote(address).replace("\\", "/").split("/"):
        return False
    folder, root_folder = to_local_folder(address), to_local_folder(root)
    if folder is not None and root_folder is not None:
        return _follow_links(folder).is_relative_to(_follow_links(root_folder))
    if folder is not None or root_folder is not None:
        return False
    location, allowed = urlsplit(to_spark_scheme(address)), urlsplit(to_spark_scheme(root))
    parts, root_parts = location.path.strip("/").split("/"), allowed.path.strip("/").split("/")
    is_same = (location.scheme, location.netloc) == (allowed.scheme, allowed.netloc)
    is_plain = not location.query and not location.fragment
    return is_same and is_plain and (root_parts == [""] or parts[: len(root_parts)] == root_parts)
