"""Would a run with these settings work? Each thing that a run needs, tried before it does.

Rules of the room: what a run would meet is tried for real where that leaves no trace: a
Spark is started, and a table of a name that nobody has is made, written, read and removed.
A check that fails says what to do; those behind it that cannot be made without it are
skipped and say so. No value of a secret setting is told, whoever's words they are.
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
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from tap_core.config.loading import ConfigInput
from tap_core.events import StreamId
from tap_core.exceptions import ConfigurationError
from tap_core.redaction import make_redactor, redact, redact_line
from target_spark.cli.last_state import find_recoverable_tables, get_last_marker
from target_spark.columns import ColumnOptions, schema_from_json_schema
from target_spark.config import settings
from target_spark.config.options import LoadOptions, RunInfo
from target_spark.errors import SparkUnavailableError, TargetSparkError
from target_spark.loader.ledger import CommitMetadata
from target_spark.spark.access_protection import find_weaknesses, find_weaknesses_of_remote
from target_spark.spark.engine import start_spark
from target_spark.spark.jars import format_conf, required_jars, required_s3_jars, uses_s3
from target_spark.spark.session import check_java
from target_spark.storage.errors import find_storage_error
from target_spark.storage.job_lock import get_lock_holder
from target_spark.storage.retry import first_error_line
from target_spark.storage.spool import SpoolFolder
from target_spark.storage.uris import to_local_folder
from target_spark.tables.identifiers import quote
from target_spark.tables.model import Table, TableLayout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Check", "checks", "preflight_checks", "run_checks", "storage_checks"]

_Verdict: TypeAlias = Literal["ok", "warning", "failed", "skipped"]

_PROBE: Final = "target_spark_probe"
_LIFE: Final = ("made", "written", "read", "removed (remove it)")
"""What is done with a probe, in order."""

_NEEDED: Final = {"java", "pyspark", "jars"}
"""The checks without which no Spark can be started."""

_ROOM: Final = 1 << 30
"""Less free space than this is worth a warning."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at, how it came out, and what to do where it did not."""

    name: str
    verdict: _Verdict
    text: str

    def line(self) -> str:
        """Return it as one line for people."""
        return f"{self.verdict:8} {self.name:14} {self.text}"


def run_checks(
    check: Callable[[ConfigInput], Mapping[str, Any]],
    given: Sequence[str],
    *,
    as_json: bool = False,
) -> int:
    """Make every check and print each; return 0, or 1 where one failed.

    ``check`` returns the settings of what was given, or raises `ConfigurationError`.
    """
    found = []
    for told in checks(check, given):
        found.append(told)
        if not as_json:
            print(redact_line(told.line()), flush=True)  # noqa: T201  (this is what was asked for)
    if as_json:
        print(json.dumps({"checks": [asdict(each) for each in found]}, indent=2))  # noqa: T201
    return int(any(each.verdict == "failed" for each in found))


def checks(
    check: Callable[[ConfigInput], Mapping[str, Any]], given: Sequence[str]
) -> Iterator[Check]:
    """Make every check and yield each, without secrets; ``check`` as in `examine`."""
    config, faults = _configuration(check, given)
    hide = make_redactor(config)
    for made in _checks(config, faults):
        yield replace(made, text=redact(hide(made.text)))


def _configuration(
    check: Callable[[ConfigInput], Mapping[str, Any]], given: Sequence[str]
) -> tuple[Mapping[str, Any], list[str]]:
    """Return the settings, as far as they can be read, and what is wrong with them."""
    config: Mapping[str, Any] = {}
    try:
        found = ConfigInput.from_cli_args(*given)
        config = found.config
        return check(found), []
    except ConfigurationError as error:
        return config, list(getattr(error, "errors", None) or [str(error)])


def _checks(config: Mapping[str, Any], faults: Sequence[str]) -> Iterator[Check]:
    for fault in faults:
        yield Check("configuration", "failed", fault)
    if not faults:
        table_format = settings.with_defaults(config)["format"]
        said = f"job {settings.get_job_name(config)}, format {table_format}"
        yield Check("configuration", "ok", said)
    if faults:
        yield from _programs(config)
        yield Check("the rest", "skipped", "it needs a configuration without faults")
        return
    found = list(preflight_checks(config))
    yield from found
    yield _lease(config)
    if any(check.verdict == "failed" for check in found if check.name in _NEEDED):
        yield Check("spark", "skipped", "it needs what failed above")
        yield from _security(config)
        return
    yield from _with_spark(config)


def preflight_checks(config: Mapping[str, Any]) -> Iterator[Check]:
    """Check what can be known of checked settings without a Spark."""
    yield from _programs(config)
    if not config.get("remote"):  # its server has them, and says so below
        yield _tried("jars", lambda: _jars(config))
    yield _staging(config)
    yield from _place(config)


def _programs(config: Mapping[str, Any]) -> Iterator[Check]:
    if not config.get("remote"):
        yield _tried("java", check_java)
    yield _tried("pyspark", lambda: f"PySpark {_version()}")


def _tried(name: str, step: Callable[[], str]) -> Check:
    try:
        return Check(name, "ok", step())
    except (TargetSparkError, OSError) as error:
        return Check(name, "failed", str(error))


def _version() -> str:
    for name in ("pyspark", "pyspark-client"):  # the latter is for a Spark Connect server alone
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    raise SparkUnavailableError("PySpark is not installed: pip install 'tap-core-sdk[spark]'")


def _jars(config: Mapping[str, Any]) -> str:
    """Say where the format's jars come from.

    Raises:
        SparkUnavailableError: there are none for this Spark, or a given one is missing.
    """
    asked, version = settings.spark_settings(config), _version()
    missing = [jar for jar in asked.jars if (place := to_local_folder(jar)) and not place.is_file()]
    if missing:
        raise SparkUnavailableError(
            f"These files of the setting jars are not there: {', '.join(missing)}. Download"
            " them, or take the setting away: then they are fetched."
        )
    needed = [*required_jars(asked.format, version)[:1]]
    if uses_s3(asked.addresses, asked.conf):
        needed += required_s3_jars(version)[:1]
    conf = format_conf(asked.format, asked.conf, asked.jars, version, asked.addresses)
    return "; ".join(map(partial(_jar, conf), needed)) or f"{asked.format} needs none"


def _jar(conf: Mapping[str, str], needed: str) -> str:
    if needed in conf.get("spark.jars.packages", ""):
        return f"{needed} is not in the cache and will be fetched into it by Spark's start"
    return f"{needed.split(':')[1]} is on this machine"


# Folders and the lease


def _staging(config: Mapping[str, Any]) -> Check:
    system = tempfile.gettempdir()  # rows are spooled there where staging is an address
    folder = to_local_folder(config.get("staging") or system) or Path(system)
    fault = _cannot_write(folder)
    if fault:
        return Check("staging", "failed", f"{fault}. Set staging to a folder that can be written")
    wanted_bytes = settings.load_options(config).spool_bytes
    free = shutil.disk_usage(_nearest(folder)).free
    if free < wanted_bytes:
        text = (
            f"{folder} has {_size(free)} free, and {_size(wanted_bytes)} may wait there: make"
            " room, lower max_spool_bytes, or set staging to another disk"
        )
        return Check("staging", "warning", text)
    return Check("staging", "ok", f"{folder} ({_size(free)} free)")


def _place(config: Mapping[str, Any]) -> Iterator[Check]:
    folder = to_local_folder(settings.get_path(config)) if settings.get_path(config) else None
    if folder is None:
        return
    fault = _cannot_write(folder)
    if fault:
        yield Check("path", "failed", f"{fault}. Set path to a folder that can be written")
        return
    free = shutil.disk_usage(_nearest(folder)).free
    if free < _ROOM:
        yield Check("path", "warning", f"{folder} has only {_size(free)} free: make room there")
        return
    made = "" if folder.is_dir() else ", made by the first run"
    yield Check("path", "ok", f"{folder} ({_size(free)} free{made})")


def _nearest(folder: Path) -> Path:
    """Return the folder, or the first above it that exists."""
    return next(place for place in (folder, *folder.absolute().parents) if place.exists())


def _cannot_write(folder: Path) -> str:
    """Say why a folder cannot be made or written; nothing if it can."""
    nearest = _nearest(folder)
    if not nearest.is_dir():
        return f"{nearest} is a file"
    if not os.access(nearest, os.W_OK | os.X_OK):
        return f"{nearest} cannot be written by this user"
    return ""


def _size(nbytes: int) -> str:
    return f"{nbytes / 1e9:.1f} GB"


def _lease(config: Mapping[str, Any]) -> Check:
    job, place = settings.get_job_name(config), settings.get_location(config)
    names = (job, *settings.former_jobs(config))
    try:
        owner = next(filter(None, (get_lock_holder(place, name) for name in names)), None)
    except (TargetSparkError, OSError) as error:
        return Check("lease", "failed", str(error))
    if owner is None:
        return Check("lease", "ok", f"no run of job {job} is at work")
    return Check("lease", "warning", f"a run of job {job} is at work: {owner}; another has to wait")


# With a real Spark


def _with_spark(config: Mapping[str, Any]) -> Iterator[Check]:
    began = time.monotonic()
    shared = settings.shared_folders(config)
    session = start_spark(replace(settings.spark_settings(config), shared=shared))
    try:
        try:
            spark = session.spark()
        except TargetSparkError as error:
            yield Check("spark", "failed", str(error))
            yield from _security(config)
            yield Check("storage", "skipped", "it needs Spark")
            return
        seconds = time.monotonic() - began
        said = f"Spark {spark.version} as {session.application}, started in {seconds:.1f} s"
        yield Check("spark", "ok", said)
        yield from _security(config, spark)
        if shared:
            seen = " and ".join(f"{name} ({folder})" for name, folder in shared.items())
            yield Check("executors", "ok", f"they read and write in {seen}")
        options = settings.load_options(config)
        if options.staging and to_local_folder(options.staging) is None:
            yield _staging_address(options.staging, spark)
        yield from storage_checks(options, spark)
        yield _tables(config, options, spark)
    finally:
        session.stop()


def _security(config: Mapping[str, Any], spark: SparkSession | None = None) -> Iterator[Check]:
    """Say who else can read what Spark holds.

    The settings in force are those of ``spark``, which may have some of ``spark-defaults.conf``;
    where there is none, those that are given.
    """
    asked = settings.spark_settings(config)
    if asked.remote:
        weaknesses = list(find_weaknesses_of_remote(asked.remote))
    else:
        conf = asked.conf if spark is None else dict(spark.sparkContext.getConf().getAll())
        weaknesses = list(find_weaknesses(asked.master, conf))
    for weakness in weaknesses:
        yield Check("security", "warning", weakness)
    if not weaknesses and (asked.remote or not asked.master.startswith("local")):
        yield Check("security", "ok", "no setting leaves open what Spark could close")


def _staging_address(staging: str, spark: SparkSession) -> Check:
    """Put a file where rows wait, let Spark read it, and remove it."""
    from target_spark.storage.staging_upload import StagingArea, staged_for_spark

    with contextlib.closing(SpoolFolder()) as folder:
        file = folder.new_path("probe")
        file.write_text("here\n", encoding="utf-8")
        reach = StagingArea(folder, staging, RunInfo(_PROBE, uuid.uuid4().hex, 0), alone=False)
        try:
            with staged_for_spark(spark, reach, [str(file)]) as found:
                spark.read.text(list(found)).collect()
        except Exception as error:  # noqa: BLE001  whatever a storage does wrong is told
            cause = find_storage_error(str(error)) or first_error_line(error)
            return Check("staging", "failed", f"rows cannot wait at {staging}: {cause}")
    return Check("staging", "ok", f"a file was put to {staging}, read and removed")


def storage_checks(options: LoadOptions, spark: SparkSession) -> Iterator[Check]:
    """Make, write, read and remove a table that nobody has in each place that tables go to."""
    for table in _probes(options):
        yield _storage(options, spark, table)


def _probes(options: LoadOptions) -> list[Table]:
    """Return a table that nobody has for each place in which a stream has its table."""
    name = f"{_PROBE}_{uuid.uuid4().hex[:8]}"
    found: dict[str, Table] = {}
    for stream in (name, *options.streams):
        table = options.table(StreamId(stream))
        above, of = table.path.rpartition("/")[0], table.identifier[:-1]
        probe = Table(above and f"{above}/{name}", name, of and (*of, name))
        found.setdefault(probe.key, probe)
    return list(found.values())


def _storage(options: LoadOptions, spark: SparkSession, table: Table) -> Check:
    place = ".".join(table.identifier[:-1]) or table.path.rpartition("/")[0]
    steps: list[str] = []
    try:
        with _gone_after(spark, table):
            for step in _a_life(options, spark, table):
                steps.append(step)  # noqa: PERF402  (where it broke off must be known)
    except Exception as error:  # noqa: BLE001  whatever a storage does wrong is told
        told = str(error).partition("\n\tat ")[0].partition("\n\n")[0].strip()
        cause = find_storage_error(str(error)) or told
        done = f" (done before: {', '.join(steps)})" if steps else ""
        text = f"a table {table.name} in {place} could not be {_LIFE[len(steps)]}{done}: {cause}"
        return Check("storage", "failed", text)
    return Check("storage", "ok", f"a {options.format} table in {place} was {', '.join(steps)}")


def _a_life(options: LoadOptions, spark: SparkSession, table: Table) -> Iterator[str]:
    """Make, write, read and remove a table; say each step when it is done."""
    from target_spark.writers import get_writer

    writer = get_writer(options.format)
    layout = schema_from_json_schema(
        {"properties": {"id": {"type": "integer"}}}, (), ColumnOptions()
    )
    try:
        writer.create(spark, table, layout, TableLayout(), has_rows=True)
        yield "made"
        marker = CommitMetadata(_PROBE, uuid.uuid4().hex, int(time.time() * 1000), 1, 0)
        writer.append(spark, table, spark.range(1).selectExpr("id"), marker)
        yield "written"
        _read_back([tuple(row) for row in writer.rows(spark, table).collect()])
        yield "read"
    except Exception:
        with contextlib.suppress(Exception):  # what went wrong first is told
            writer.drop(spark, table)
        raise
    writer.drop(spark, table)
    yield "removed"


def _read_back(rows: Sequence[tuple[Any, ...]]) -> None:
    if rows != [(0,)]:
        raise TargetSparkError(f"one row was written, and {len(rows)} came back: {rows[:2]}")


@contextlib.contextmanager
def _gone_after(spark: SparkSession, table: Table) -> Iterator[None]:
    """Remove the database and the folder of the tables again if they were not there before."""
    database = quote(*table.identifier[:-1])
    fresh_database = bool(database) and not spark.catalog.databaseExists(database)
    folder = to_local_folder(table.path.rpartition("/")[0]) if table.path else None
    fresh_folder = folder is not None and not folder.exists()
    try:
        yield
    finally:
        if fresh_database:
            with contextlib.suppress(Exception):  # a run has put something there meanwhile
                spark.sql(f"DROP DATABASE IF EXISTS {database} RESTRICT")
        if fresh_folder and folder is not None:
            with contextlib.suppress(OSError):  # the same
                folder.rmdir()


def _tables(config: Mapping[str, Any], options: LoadOptions, spark: SparkSession) -> Check:
    """Say whose tables are there."""
    jobs = (settings.get_job_name(config), *settings.former_jobs(config))
    try:
        found = find_recoverable_tables(options, lambda: spark)
    except Exception as error:  # noqa: BLE001  whatever a storage does wrong is told
        return Check("tables", "failed", f"they cannot be listed: {error}".partition("\n")[0])
    others = [each.table for each in found if each.marker and each.marker.job not in jobs]
    if others:
        text = (
            f"{', '.join(others[:5])} {'are' if len(others) > 1 else 'is'} loaded by another job,"
            f" and a stream of that name would be refused: set job, or another path"
        )
        return Check("tables", "warning", text)
    unknown = [each.table for each in found if each.unknown]
    if unknown:
        text = f"{', '.join(unknown[:5])}: rows that target-spark did not write"
        return Check("tables", "warning", text)
    last = get_last_marker(jobs, found)
    state = f"; the last state is of run {last.run}" if last else ""
    return Check("tables", "ok", f"{len(found)} of this job{state}")
