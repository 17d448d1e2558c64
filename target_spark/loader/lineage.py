"""OpenLineage events of a run: its start, its end, and the datasets that it read and wrote.

Events are sent if the extra ``openlineage`` is installed and the OpenLineage client is configured
by environment variables or a file. A separate thread sends them, so a server that does not respond
delays only the end of a run, by at most ten seconds. A failure is logged as a warning and never
affects the run. Dataset names follow OpenLineage's rules:
https://openlineage.io/docs/spec/naming.
"""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from tap_core.io.private_files import (
    UntrustedPathError,
    check_parents,
    find_owner_fault,
    find_trust_fault,
)
from tap_core.redaction import (
    collect_secrets,
    redact,
    redact_line,
    redact_url,
    register_secrets,
)
from target_spark.config.options import RunInfo
from target_spark.loader.loader import Loader
from target_spark.loader.report import COMPLETE, STOPPED
from target_spark.storage.uris import to_local_folder
from target_spark.tables.table import QUARANTINE, Table

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import InputDataset, OutputDataset, RunEvent

__all__ = ["LineageRun", "begin_lineage", "name_table"]

logger = logging.getLogger(__name__)

_END_SECONDS: Final = 10.0
"""Maximum number of seconds that the end of a run waits until all events are sent."""

_VARIABLE_PREFIX: Final = "OPENLINEAGE_"
_CONFIG_FILE: Final = "openlineage.yml"

_UNTRUSTED: Final = (
    "The run is not sent to OpenLineage: the file %s, which may name code to load, %s. Change the"
    " owner or the mode, or name a file in the environment variable %s."
)

_OBJECT_STORES: Final = {"s3a": "s3", "s3n": "s3", "s3": "s3", "gs": "gs"} | {
    scheme: scheme for scheme in ("abfss", "abfs", "wasbs", "wasb")
}
"""Spark's URL schemes, with OpenLineage's schemes for dataset names: ``s3a`` -> ``s3``."""

_BuildEvent = Callable[[], "RunEvent"]


@dataclass(frozen=True, slots=True)
class _LoadedTable:
    """A table that the run loaded, with the columns to report to OpenLineage.

    Attributes:
        table: The table.
        types: The type (DDL) of each column by name.
    """

    table: Table
    types: Mapping[str, str]


def begin_lineage(
    run: RunInfo, table_format: str, spark_conf: Mapping[str, Any]
) -> LineageRun | None:
    """Send the START event of a run to OpenLineage, and return the sender of its further events.

    Return None if the OpenLineage client is not installed or not configured.

    Args:
        run: The run. Its job name is the job name in OpenLineage.
        table_format: The format of the tables, such as ``delta``.
        spark_conf: The Spark settings, which may have the URLs of catalogs.
    """
    return LineageRun(run, table_format, spark_conf) if _is_configured() else None


class LineageRun:
    """Sender of one run's OpenLineage events, in order and in a background thread."""

    def __init__(self, run: RunInfo, table_format: str, spark_conf: Mapping[str, Any]) -> None:
        self._run = run
        self._format = table_format
        self._spark_conf = spark_conf
        self._tables: Mapping[str, _LoadedTable] = {}
        self._events: SimpleQueue[tuple[str, _BuildEvent] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._send_events, name="openlineage", daemon=True)
        self._thread.start()
        self._queue_event("START", {}, {})

    def record_tables(self, loader: Loader) -> None:
        """Store the tables of a loader and their columns, to report them at the end of the run."""
        columns = loader.get_columns()
        self._tables = {
            stream: _LoadedTable(table, columns[stream])
            for stream, table in loader.get_tables().items()
        }

    def end(self, report: Mapping[str, Any]) -> None:
        """Send the COMPLETE, ABORT or FAIL event, and wait up to 10 s until all events are sent.

        Args:
            report: The report of the run with its outcome, as `Report.as_dict` returns it.
        """
        states = {COMPLETE: "COMPLETE", STOPPED: "ABORT"}
        self._queue_event(states.get(report["outcome"], "FAIL"), report, self._tables)
        self._events.put(None)
        self._thread.join(_END_SECONDS)
        if self._thread.is_alive():
            logger.warning(
                "OpenLineage did not take all events of this run within %g seconds.", _END_SECONDS
            )

    def _queue_event(
        self, state: str, report: Mapping[str, Any], tables: Mapping[str, _LoadedTable]
    ) -> None:
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        build = partial(_build_event, self._run, self._format, state, now, report, tables)
        self._events.put((state, partial(build, partial(name_table, spark_conf=self._spark_conf))))

    def _send_events(self) -> None:
        try:
            client = _make_client()
        except Exception as error:  # noqa: BLE001  lineage never affects the run
            logger.warning("The run is not sent to OpenLineage: %s.", _describe(error))
            return
        while (item := self._events.get()) is not None:
            state, build = item
            try:
                client.emit(build())
            except Exception as error:  # noqa: BLE001  the same
                logger.warning(
                    "OpenLineage did not get the event %s of this run: %s.", state, _describe(error)
                )
        client.close(_END_SECONDS)


def _is_configured() -> bool:
    """Return True if the OpenLineage client is installed and configured.

    Environment variables or a file configure the client. Return False if ``OPENLINEAGE_DISABLED``
    is true, or if another user can change or replace the file.
    """
    if os.environ.get(f"{_VARIABLE_PREFIX}DISABLED", "").strip().lower() == "true":
        return False
    file = None if os.environ.get(f"{_VARIABLE_PREFIX}CONFIG") else _find_config_file()
    if file is None and not any(
        name in {f"{_VARIABLE_PREFIX}URL", f"{_VARIABLE_PREFIX}CONFIG"}
        or name.startswith(f"{_VARIABLE_PREFIX}_TRANSPORT__")
        for name in os.environ
    ):
        return False
    try:
        if find_spec("openlineage.client") is None:
            return False
    except ModuleNotFoundError:
        return False
    if file is not None and (fault := _find_trust_fault(file)):
        logger.warning(_UNTRUSTED, file, fault, f"{_VARIABLE_PREFIX}CONFIG")
        return False
    return True


def _find_trust_fault(file: Path) -> str:
    """Return the reason why another user can change or replace the OpenLineage configuration file.

    Return "" if no other user can, so that the file is trusted.
    """
    try:
        check_parents(file)
    except UntrustedPathError as error:
        return f"is in the folder {error.path}, which {error.fault}"
    return find_owner_fault(file.lstat()) or find_trust_fault(file.stat())


def _find_config_file() -> Path | None:
    """Return the path of ``openlineage.yml`` in the client's default folders, or None.

    As in the client, a file that this user cannot read is ignored. Without a home folder, only the
    working folder is searched.
    """
    home = Path(os.path.expanduser("~"), ".openlineage")  # noqa: PTH111  (Path.home may fail)
    files = [folder / _CONFIG_FILE for folder in (Path.cwd(), home) if folder.is_absolute()]
    return next((file for file in files if os.access(file, os.R_OK) and file.is_file()), None)


def _make_client() -> OpenLineageClient:
    """Return an OpenLineage client, and register its credentials for redaction in all output."""
    variables = {
        name: text for name, text in os.environ.items() if name.startswith(_VARIABLE_PREFIX)
    }
    register_secrets(_make_client, collect_secrets(variables))
    from openlineage.client import OpenLineageClient

    client = OpenLineageClient()
    register_secrets(_make_client, collect_secrets(client.config.transport or {}))
    return client


def _describe(error: BaseException) -> str:
    return redact_line(str(error) or type(error).__name__).rstrip(".")


# Names of datasets


def name_table(table: Table, spark_conf: Mapping[str, Any]) -> tuple[str, str]:
    """Return the OpenLineage namespace and name of a table.

    For a table with a path, namespace and name come from the path. Otherwise the namespace is the
    URL of the table's catalog in the Spark settings, or the name of the catalog if they have no
    URL.
    """
    if table.path:
        return _name_location(table.path)
    catalog = table.identifier[0] if len(table.identifier) > 2 else "spark_catalog"  # noqa: PLR2004
    name = ".".join(table.identifier[-2:])
    uri = str(spark_conf.get(f"spark.sql.catalog.{catalog}.uri") or "")
    if uri.startswith("thrift://"):
        return f"hive://{_get_server(uri)}", name
    return (redact(redact_url(uri)), name) if uri else (catalog, name)


def _name_location(address: str) -> tuple[str, str]:
    """Return the OpenLineage namespace and name of a folder.

    ``s3a://bucket/a/b`` -> ``("s3://bucket", "a/b")``; ``/data`` -> ``("file", "/data")``.
    """
    folder = to_local_folder(address)
    if folder is not None:
        return "file", str(folder)
    parts = urlsplit(address)
    scheme = _OBJECT_STORES.get(parts.scheme)
    if scheme is None:
        return f"{parts.scheme}://{_get_server(address)}", f"/{parts.path.strip('/')}"
    return f"{scheme}://{_get_server(address)}", parts.path.strip("/") or "/"


def _get_server(address: str) -> str:
    """Return the host and port, bucket or ``container@host`` of a URL, without a password."""
    user, _, host = urlsplit(address).netloc.rpartition("@")
    return host if ":" in user or not user else f"{user}@{host}"


# Events


def _build_event(
    run: RunInfo,
    table_format: str,
    state: str,
    now: str,
    report: Mapping[str, Any],
    tables: Mapping[str, _LoadedTable],
    name_dataset: Callable[[Table], tuple[str, str]],
) -> RunEvent:
    from openlineage.client.event_v2 import Job, Run, RunEvent, RunState, set_producer
    from openlineage.client.facet_v2 import error_message_run, job_type_job

    set_producer(f"pkg:pypi/tap-core-sdk@{version('tap-core-sdk')}")
    facets: dict[str, Any] = {}
    if state == "FAIL":
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(report["outcome"], "PYTHON")
    kind = job_type_job.JobTypeJobFacet("BATCH", "TARGET_SPARK", "JOB")
    streams = report.get("streams", {})
    is_complete = state == "COMPLETE"
    return RunEvent(
        eventType=RunState[state],
        eventTime=now,
        run=Run(str(uuid.UUID(run.id)), facets),
        job=Job(
            os.environ.get(f"{_VARIABLE_PREFIX}NAMESPACE") or "default", run.job, {"jobType": kind}
        ),
        inputs=[_describe_input(run.job, stream, counts) for stream, counts in streams.items()],
        outputs=[
            output
            for stream, loaded in tables.items()
            if (counts := streams.get(stream)) and (counts["commits"] or is_complete)
            for output in _describe_outputs(loaded, counts, table_format, name_dataset)
        ],
    )


def _describe_input(job: str, stream: str, counts: Mapping[str, Any]) -> InputDataset:
    from openlineage.client.event_v2 import InputDataset
    from openlineage.client.facet_v2 import input_statistics_input_dataset as statistics

    count = statistics.InputStatisticsInputDatasetFacet(counts["received"], counts["bytes"])
    return InputDataset(f"stream://{job}", stream, inputFacets={"inputStatistics": count})


def _describe_outputs(
    loaded: _LoadedTable,
    counts: Mapping[str, Any],
    table_format: str,
    name_dataset: Callable[[Table], tuple[str, str]],
) -> Iterator[OutputDataset]:
    """Yield OpenLineage datasets: a stream's table, and its quarantine table if rows went there.

    Args:
        loaded: The table of the stream.
        counts: The stream's entry in the run report, such as ``{"written": 5, …}``.
        table_format: The format of the table, such as ``delta``.
        name_dataset: Function that returns the OpenLineage namespace and name of a table.
    """
    from openlineage.client.event_v2 import OutputDataset
    from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics

    def describe(table: Table, facets: dict[str, Any], *figures: int | None) -> OutputDataset:
        count = statistics.OutputStatisticsOutputDatasetFacet(*figures)
        return OutputDataset(
            *name_dataset(table), facets=facets, outputFacets={"outputStatistics": count}
        )

    facets = _describe_table(loaded, counts["changes"], table_format)
    figures = (counts["written"], counts["table_bytes"] or None, counts["files"] or None)
    yield describe(loaded.table, facets, *figures)
    if counts["quarantined"]:
        yield describe(loaded.table.with_suffix(QUARANTINE), {}, counts["quarantined"])


def _describe_table(
    loaded: _LoadedTable, changes: list[Mapping[str, Any]], table_format: str
) -> dict[str, Any]:
    """Return OpenLineage facets (metadata) of a table: columns, format, other name and changes.

    ``changes`` are the entries of the run report for columns that were added or widened in the
    table. If the table has a path and a name in the catalog, the facet ``symlinks`` has the name.
    """
    from openlineage.client.facet_v2 import (
        DatasetFacet,
        schema_dataset,
        storage_dataset,
        symlinks_dataset,
    )

    fields = [
        schema_dataset.SchemaDatasetFacetFields(column, type_)
        for column, type_ in loaded.types.items()
    ]
    facets: dict[str, Any] = {
        "schema": schema_dataset.SchemaDatasetFacet(fields),
        "storage": storage_dataset.StorageDatasetFacet(table_format, "parquet"),
    }
    identifier = ".".join(loaded.table.identifier)
    if identifier and loaded.table.path:
        link = symlinks_dataset.Identifier("spark_catalog", identifier, "TABLE")
        facets["symlinks"] = symlinks_dataset.SymlinksDatasetFacet([link])
    if changes:
        facet = DatasetFacet().with_additional_properties(
            changes=[dict(change) for change in changes]
        )
        facets["targetSpark_columnChanges"] = facet
    return facets
