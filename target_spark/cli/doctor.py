"""The command `target-spark doctor`, which checks that a run with the given settings would work.

The checks start Spark, and create, write, read and drop a test table. The text of a failed check
contains the remedy, and checks that depend on it are skipped. Secrets of the settings are never
printed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from tap_core.config.loading import ConfigInput
from tap_core.events import StreamId
from tap_core.exceptions import ConfigurationError
from tap_core.io.private_files import UntrustedPathError
from tap_core.redaction import make_redactor, redact, redact_line
from target_spark.cli.engine import describe_engine
from target_spark.cli.last_state import find_recoverable_tables, get_job_metadata
from target_spark.columns import ColumnOptions, schema_from_json_schema
from target_spark.config import settings
from target_spark.config.options import LoadOptions, RunInfo
from target_spark.errors import SparkUnavailableError, TargetSparkError
from target_spark.spark.access_protection import find_weaknesses, find_weaknesses_of_remote
from target_spark.spark.jars import format_conf, required_jars, required_storage_jars
from target_spark.spark.session import check_java, check_packages, find_pyspark_version
from target_spark.spark.spark_provider import start_spark
from target_spark.storage.commit_retry import first_error_line
from target_spark.storage.error_explanations import find_storage_error
from target_spark.storage.job_lock import get_lock_holder
from target_spark.storage.spool import SpoolFolder
from target_spark.storage.uris import to_local_folder
from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.tables.identifiers import quote
from target_spark.tables.table import Table, TableLayout
from target_spark.warm_engine.session import may_use_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Check", "checks", "preflight_checks", "run_checks", "storage_checks"]

_Verdict: TypeAlias = Literal["ok", "warning", "failed", "skipped"]

_TEST_TABLE: Final = "target_spark_probe"
_TABLE_STEPS: Final = ("made", "written", "read", "removed (remove it)")
"""Steps of the table test, in order. Each is the end of the message "a table could not be …"."""

_PLATFORMS: Final = (
    ("Databricks", "DATABRICKS_RUNTIME_VERSION", ""),
    ("AWS Glue", "GLUE_VERSION", ""),
    ("Amazon EMR", "EMR_RELEASE_LABEL", ""),
    ("Microsoft Fabric or Azure Synapse", "AZURE_SERVICE", "Microsoft.ProjectArcadia"),
)
"""Managed Spark platforms: name, environment variable that identifies the platform, and value of
this variable ("" for any value)."""

_NEEDED_FOR_SPARK: Final = {"java", "pyspark", "jars"}
"""The checks that must succeed before Spark can be started."""

_MIN_FREE_BYTES: Final = 1 << 30
"""Free disk space in bytes below which the check is a warning."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check of the settings or the environment.

    Attributes:
        name: The name of the check, such as ``java``.
        verdict: ``ok``, ``warning``, ``failed`` or ``skipped``.
        text: The result as text, with the remedy if the check failed.
    """

    name: str
    verdict: _Verdict
    text: str

    def line(self) -> str:
        """Return the result of the check as one line: verdict, name and text in columns."""
        return f"{self.verdict:8} {self.name:14} {self.text}"


def run_checks(
    validate: Callable[[ConfigInput], Mapping[str, Any]],
    config_args: Sequence[str],
    *,
    as_json: bool = False,
) -> int:
    """Run all checks of `target-spark doctor` and print their results.

    Return the exit code: 1 if a check failed, else 0.

    Args:
        validate: A function that validates the configuration. It returns the settings, or raises
            `ConfigurationError`.
        config_args: The values of the option ``--config``: file paths or ``ENV``.
        as_json: True to print one JSON document; False to print one line per check.
    """
    results = []
    for result in checks(validate, config_args):
        results.append(result)
        if not as_json:
            print(redact_line(result.line()), flush=True)  # noqa: T201  (the result)
    if as_json:
        print(json.dumps({"checks": [asdict(each) for each in results]}, indent=2))  # noqa: T201
    return int(any(each.verdict == "failed" for each in results))


def checks(
    validate: Callable[[ConfigInput], Mapping[str, Any]], config_args: Sequence[str]
) -> Iterator[Check]:
    """Run the checks of `target-spark doctor` one after the other, and yield their results.

    Secrets in the texts of the results are redacted.

    Args:
        validate: A function that validates the configuration. It returns the settings, or raises
            `ConfigurationError`.
        config_args: The values of the option ``--config``.
    """
    config, faults = _read_configuration(validate, config_args)
    hide = make_redactor(config)
    for result in _check_all(config, faults):
        yield replace(result, text=redact(hide(result.text)))


def _read_configuration(
    validate: Callable[[ConfigInput], Mapping[str, Any]], config_args: Sequence[str]
) -> tuple[Mapping[str, Any], list[str]]:
    """Read the settings files in ``config_args``, and check the settings with ``validate``.

    Returns:
        The settings and a list of error texts. Without errors, the list is empty. With errors, the
        settings are those of the files as written, or empty if a file cannot be read.
    """
    config: Mapping[str, Any] = {}
    try:
        config_input = ConfigInput.from_cli_args(*config_args)
        config = config_input.config
        return validate(config_input), []
    except ConfigurationError as error:
        return config, list(getattr(error, "errors", None) or [str(error)])


def _check_all(config: Mapping[str, Any], faults: Sequence[str]) -> Iterator[Check]:
    if faults:
        for fault in faults:
            yield Check("configuration", "failed", fault)
        yield from _check_programs(config)
        yield Check("the rest", "skipped", "requires a valid configuration")
        return
    table_format = settings.with_defaults(config)["format"]
    text = f"job {settings.get_job_name(config)}, format {table_format}"
    yield Check("configuration", "ok", text)
    results = list(preflight_checks(config))
    yield from results
    yield _check_job_lock(config)
    yield from _check_engine(config)
    if any(check.verdict == "failed" for check in results if check.name in _NEEDED_FOR_SPARK):
        yield Check("spark", "skipped", "requires the checks that failed above")
        yield from _check_security(config)
        return
    yield from _check_with_spark(config)


def preflight_checks(config: Mapping[str, Any]) -> Iterator[Check]:
    """Check everything that does not need a running Spark, and yield the results.

    Java, PySpark, the jars, the folder for temporary files and the folder of the tables are
    checked.

    Args:
        config: The settings, which must be valid.
    """
    yield from _check_programs(config)
    if not config.get("remote"):  # a server's jars are checked later
        yield _make_check("jars", lambda: _describe_jars(config))
    yield _check_staging(config)
    yield from _check_path(config)


def _check_programs(config: Mapping[str, Any]) -> Iterator[Check]:
    if not config.get("remote"):
        yield _make_check("java", check_java)
    yield _make_check("pyspark", _describe_pyspark)
    yield from _check_platform()


def _describe_pyspark() -> str:
    """Return a text with the version of the installed PySpark, and ``SPARK_HOME`` if it is set.

    Raises:
        SparkUnavailableError: PySpark or another package is not installed.
    """
    version = _get_pyspark_version()
    check_packages()
    home = os.environ.get("SPARK_HOME")
    origin = f"; Spark is started from SPARK_HOME ({home})" if home else ""
    return f"PySpark {version}{origin}"


def _check_platform() -> Iterator[Check]:
    """Yield a check that names the managed Spark platform of this process, such as Databricks.

    Yield nothing on other machines. If ``SPARK_HOME`` is set, the check is a warning, because the
    platform's Spark would be used instead of PySpark's.
    """
    for name, variable, value in _PLATFORMS:
        actual = os.environ.get(variable)
        if not actual or (value and actual != value):
            continue
        text = f"{name} ({variable}={actual})"
        if "SPARK_HOME" in os.environ:
            remedy = (
                "SPARK_HOME selects the Spark of the platform, and loads are tested with the Spark"
                " of the installed PySpark: unset SPARK_HOME (docs/cluster.md, managed platforms)"
            )
            yield Check("platform", "warning", f"{text}: {remedy}")
        else:
            yield Check("platform", "ok", text)
        return


def _make_check(name: str, step: Callable[[], str]) -> Check:
    """Call ``step``, and return a check with the text that it returns or the error it raises."""
    try:
        return Check(name, "ok", step())
    except (TargetSparkError, ConfigurationError, OSError) as error:
        return Check(name, "failed", str(error))


def _get_pyspark_version() -> str:
    try:
        return find_pyspark_version()
    except SparkUnavailableError:
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version("pyspark-client")  # only for Spark Connect
        raise


def _describe_jars(config: Mapping[str, Any]) -> str:
    """Return a text that names each required jar: present on this machine, or to be downloaded.

    Raises:
        SparkUnavailableError: The format does not support this Spark version, or a configured jar
            is missing.
    """
    spark_settings, version = settings.spark_settings(config), _get_pyspark_version()
    missing = [
        jar for jar in spark_settings.jars if (path := to_local_folder(jar)) and not path.is_file()
    ]
    if missing:
        raise SparkUnavailableError(
            f"These files of the setting jars do not exist: {', '.join(missing)}. Download"
            " them, or remove the setting: then Spark downloads them."
        )
    needed = [
        *required_jars(spark_settings.format, version)[:1],  # the others are its dependencies
        *required_storage_jars(spark_settings.addresses, spark_settings.conf, version),
    ]
    conf = format_conf(
        spark_settings.format,
        spark_settings.conf,
        spark_settings.jars,
        version,
        spark_settings.addresses,
    )
    jars = [_describe_jar(conf, address) for address in needed]
    return "; ".join(jars) or f"{spark_settings.format} needs none"


def _describe_jar(conf: Mapping[str, str], needed: str) -> str:
    if needed in conf.get("spark.jars.packages", ""):
        return f"{needed} is not in the cache; Spark downloads it at its start"
    return f"{needed.split(':')[1]} is on this machine"


# Folders and the job lock


def _check_staging(config: Mapping[str, Any]) -> Check:
    system = tempfile.gettempdir()  # for temporary files if staging is a remote URL
    folder = to_local_folder(settings.get_staging(config) or system) or Path(system)
    fault = _explain_not_writable(folder)
    if fault:
        return Check("staging", "failed", f"{fault}. Set staging to a folder that can be written")
    wanted_bytes = settings.load_options(config).spool_bytes
    free = shutil.disk_usage(_find_nearest_existing(folder)).free
    if free < wanted_bytes:
        text = (
            f"{folder} has {_format_size(free)} free, and up to {_format_size(wanted_bytes)} of"
            " rows are stored there: free space, lower max_spool_bytes, or set staging to another"
            " disk"
        )
        return Check("staging", "warning", text)
    return Check("staging", "ok", f"{folder} ({_format_size(free)} free)")


def _check_path(config: Mapping[str, Any]) -> Iterator[Check]:
    path = settings.get_path(config)
    folder = to_local_folder(path) if path else None
    if folder is None:
        return
    fault = _explain_not_writable(folder)
    if fault:
        yield Check("path", "failed", f"{fault}. Set path to a folder that can be written")
        return
    free = shutil.disk_usage(_find_nearest_existing(folder)).free
    if free < _MIN_FREE_BYTES:
        text = f"{folder} has only {_format_size(free)} free: free space there"
        yield Check("path", "warning", text)
        return
    note = "" if folder.is_dir() else ", created by the first run"
    yield Check("path", "ok", f"{folder} ({_format_size(free)} free{note})")


def _find_nearest_existing(folder: Path) -> Path:
    """Return ``folder`` if it exists, else its nearest parent folder that exists."""
    return next(
        candidate for candidate in (folder, *folder.absolute().parents) if candidate.exists()
    )


def _explain_not_writable(folder: Path) -> str:
    """Return the reason why a folder cannot be created or written to, such as "/data is a file".

    Return "" if the folder can be used.
    """
    nearest = _find_nearest_existing(folder)
    if not nearest.is_dir():
        return f"{nearest} is a file"
    if not os.access(nearest, os.W_OK | os.X_OK):
        return f"{nearest} cannot be written by this user"
    try:
        with tempfile.TemporaryDirectory(prefix=".target-spark-doctor-", dir=nearest):
            return ""
    except OSError as error:
        return f"no folder can be created in {nearest}: {error.strerror}"


def _format_size(nbytes: int) -> str:
    return f"{nbytes / 1e9:.1f} GB"


def _check_job_lock(config: Mapping[str, Any]) -> Check:
    job, location = settings.get_job_name(config), settings.get_location(config)
    names = (job, *settings.former_jobs(config))
    try:
        owner = next(filter(None, (get_lock_holder(location, name) for name in names)), None)
    except (TargetSparkError, ConfigurationError, OSError) as error:
        return Check("lock", "failed", str(error))
    if owner is None:
        return Check("lock", "ok", f"no run of job {job} is active")
    return Check("lock", "warning", f"a run of job {job} is active: {owner}; another must wait")


def _check_engine(config: Mapping[str, Any]) -> Iterator[Check]:
    spark_settings = settings.spark_settings(config)
    if not may_use_engine(spark_settings):
        return
    try:
        text = describe_engine(spark_settings)
    except (SparkUnavailableError, ConfigurationError):  # an earlier check says so
        return
    except UntrustedPathError as error:
        text = f"{error}: let only this user enter that folder, or remove it"
        yield Check("engine", "warning", text)
        return
    yield Check("engine", "ok", text or "none is running with these settings")


# Checks with a running Spark


def _check_with_spark(config: Mapping[str, Any]) -> Iterator[Check]:
    began = time.monotonic()
    shared = settings.shared_folders(config)
    session = start_spark(replace(settings.spark_settings(config), shared=shared, engine="never"))
    try:
        try:
            spark = session.spark()
        except TargetSparkError as error:
            yield Check("spark", "failed", str(error))
            yield from _check_security(config)
            yield Check("storage", "skipped", "requires Spark")
            return
        seconds = time.monotonic() - began
        text = f"Spark {spark.version} as {session.application}, started in {seconds:.1f} s"
        yield Check("spark", "ok", text)
        yield from _check_security(config, spark)
        if shared:
            folders = " and ".join(f"{name} ({folder})" for name, folder in shared.items())
            yield Check("executors", "ok", f"they read and write in {folders}")
        options = settings.load_options(config)
        if options.staging and to_local_folder(options.staging) is None:
            yield _check_staging_address(options.staging, spark)
        yield from storage_checks(options, spark)
        yield _check_tables(config, options, spark)
    finally:
        session.stop()


def _check_security(
    config: Mapping[str, Any], spark: SparkSession | None = None
) -> Iterator[Check]:
    """Yield a warning for each missing Spark protection against other users, such as encryption.

    With ``spark``, the effective settings of this session are checked, including those of
    ``spark-defaults.conf``. Without it, the Spark settings in the target's ``config`` are checked.
    """
    spark_settings = settings.spark_settings(config)
    if spark_settings.remote:
        weaknesses = list(find_weaknesses_of_remote(spark_settings.remote))
    else:
        conf = spark_settings.conf if spark is None else dict(spark.sparkContext.getConf().getAll())
        weaknesses = list(find_weaknesses(spark_settings.master, conf))
    for weakness in weaknesses:
        yield Check("security", "warning", weakness)
    if not weaknesses and (spark_settings.remote or not spark_settings.master.startswith("local")):
        yield Check("security", "ok", "all protections of Spark are on")


def _check_staging_address(staging: str, spark: SparkSession) -> Check:
    """Upload a test file to ``staging``, read it with Spark, delete it, and return the result.

    ``staging`` is the setting of this name, a remote URL for temporary files.
    """
    from target_spark.storage.staging_area import StagingArea, staged_for_spark

    with contextlib.closing(SpoolFolder()) as folder:
        file = folder.new_path("probe")
        file.write_text("here\n", encoding="utf-8")
        staging_area = StagingArea(
            folder, staging, RunInfo(_TEST_TABLE, uuid.uuid4().hex, 0), is_exclusive=False
        )
        try:
            with staged_for_spark(spark, staging_area, [str(file)]) as addresses:
                spark.read.text(list(addresses)).collect()
        except Exception as error:  # noqa: BLE001  any storage error is reported
            cause = find_storage_error(str(error)) or first_error_line(error)
            text = f"temporary files cannot be stored at {staging}: {cause}"
            return Check("staging", "failed", text)
    return Check("staging", "ok", f"a file was written to {staging}, read and removed")


def storage_checks(options: LoadOptions, spark: SparkSession) -> Iterator[Check]:
    """Check each location of tables in the settings, and yield the results.

    Each check creates, writes, reads and drops a test table in the location.
    """
    for table in _choose_test_tables(options):
        yield _check_storage(options, spark, table)


def _choose_test_tables(options: LoadOptions) -> list[Table]:
    """Return the test tables to create: one for each location of tables in the settings.

    The tables have random names, so that they do not exist yet. This function creates none.
    """
    name = f"{_TEST_TABLE}_{uuid.uuid4().hex[:8]}"
    probes: dict[str, Table] = {}
    for stream in (name, *options.streams):
        table = options.table(StreamId(stream))
        parent = table.path.rpartition("/")[0]
        path = f"{parent}/{name}" if parent else ""
        database = table.identifier[:-1]
        probe = Table(path, name, (*database, name) if database else ())
        probes.setdefault(probe.key, probe)
    return list(probes.values())


def _check_storage(options: LoadOptions, spark: SparkSession, table: Table) -> Check:
    location = ".".join(table.identifier[:-1]) or table.path.rpartition("/")[0]
    steps: list[str] = []
    try:
        with _remove_created_afterwards(spark, table):
            for step in _try_table(options, spark, table):
                steps.append(step)  # noqa: PERF402  (the completed steps are reported)
    except Exception as error:  # noqa: BLE001  any storage error is reported
        message = str(error).partition("\n\tat ")[0].partition("\n\n")[0].strip()
        cause = find_storage_error(str(error)) or message
        remark = f" (done before: {', '.join(steps)})" if steps else ""
        step = _TABLE_STEPS[len(steps)]
        text = f"a table {table.name} in {location} could not be {step}{remark}: {cause}"
        return Check("storage", "failed", text)
    kind = f"{'an' if options.format == 'iceberg' else 'a'} {options.format}"
    return Check("storage", "ok", f"{kind} table in {location} was {', '.join(steps)}")


def _try_table(options: LoadOptions, spark: SparkSession, table: Table) -> Iterator[str]:
    """Create, write, read and drop a test table; yield a word per step, such as "written"."""
    from target_spark.writers import get_writer

    writer = get_writer(options.format)
    table_schema = schema_from_json_schema(
        {"properties": {"id": {"type": "integer"}}}, (), ColumnOptions()
    )
    try:
        writer.create(spark, table, table_schema, TableLayout(), has_rows=True)
        yield "made"
        marker = CommitMetadata(_TEST_TABLE, uuid.uuid4().hex, int(time.time() * 1000), 1, 0)
        writer.append(table, spark.range(1).selectExpr("id"), marker)
        yield "written"
        _check_read_rows([tuple(row) for row in writer.rows(spark, table).collect()])
        yield "read"
    except Exception:
        with contextlib.suppress(Exception):  # the first error is reported
            writer.drop(spark, table)
        raise
    writer.drop(spark, table)
    yield "removed"


def _check_read_rows(rows: Sequence[tuple[Any, ...]]) -> None:
    if rows != [(0,)]:
        raise TargetSparkError(f"one row was written, and {len(rows)} were read: {rows[:2]}")


@contextlib.contextmanager
def _remove_created_afterwards(spark: SparkSession, table: Table) -> Iterator[None]:
    """Context manager that removes a test table's database and folder when the block ends.

    Both are kept if they existed before the block, or are not empty.
    """
    database = quote(*table.identifier[:-1])
    fresh_database = bool(database) and not spark.catalog.databaseExists(database)
    folder = to_local_folder(table.path.rpartition("/")[0]) if table.path else None
    fresh_folder = folder is not None and not folder.exists()
    try:
        yield
    finally:
        if fresh_database:
            with contextlib.suppress(Exception):  # a run has created something there meanwhile
                spark.sql(f"DROP DATABASE IF EXISTS {database} RESTRICT")
        if fresh_folder and folder is not None:
            with contextlib.suppress(OSError):  # not empty
                folder.rmdir()


def _check_tables(config: Mapping[str, Any], options: LoadOptions, spark: SparkSession) -> Check:
    """Check that no other job or program wrote a table in the configured locations.

    The result is a warning if one did, and ``failed`` if the tables cannot be listed. If it is
    ``ok``, its text has the id of the run that stored the last state of the job.
    """
    jobs = (settings.get_job_name(config), *settings.former_jobs(config))
    try:
        tables = find_recoverable_tables(options, lambda: spark)
    except TargetSparkError as error:
        return Check("tables", "failed", str(error))
    except Exception as error:  # noqa: BLE001  any storage error is reported
        return Check("tables", "failed", f"they cannot be listed: {first_error_line(error)}")
    foreign = [each.table.name for each in tables if each.marker and each.marker.job not in jobs]
    if foreign:
        text = (
            f"{', '.join(foreign[:5])} {'are' if len(foreign) > 1 else 'is'} loaded by another job,"
            f" and a stream of that name would be rejected: set job, or another path"
        )
        return Check("tables", "warning", text)
    unknown = [each.table.name for each in tables if each.unknown]
    if unknown:
        text = f"{', '.join(unknown[:5])}: rows that target-spark did not write"
        return Check("tables", "warning", text)
    last = get_job_metadata(jobs, tables)
    state = f"; the last state is of run {last.run}" if last else ""
    return Check("tables", "ok", f"{len(tables)} of this job{state}")
