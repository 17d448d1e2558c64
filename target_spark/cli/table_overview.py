"""The commands `target-spark runs` and `target-spark show`: run history and table overview.

Tables are read with `target_spark.cli.table_reader`, if possible without Spark. Secrets are
redacted in all texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from tap_core.config.similar_names import suggest
from tap_core.events import StreamId
from tap_core.redaction import clean_document, make_redactor, redact, redact_line
from target_spark.columns import EXTRACTED_AT
from target_spark.config import settings
from target_spark.config.options import LoadOptions
from target_spark.errors import TableError
from target_spark.spark.spark_provider import start_spark_on_demand
from target_spark.tables.table import QUARANTINE, RUNS, Table

if TYPE_CHECKING:
    from target_spark.cli.table_reader import TableReader

__all__ = [
    "describe_runs",
    "describe_table",
    "list_runs",
    "open_reader",
    "read_run_rows",
    "read_table",
    "show_table",
    "to_json",
]

_LAST_RUNS: Final = 5
_MAX_REASONS: Final = 5
_TIME_COLUMNS: Final = ("_sdc_received_at", EXTRACTED_AT)
"""Columns with the time when target-spark received a row, or an Airbyte source read it."""

_COUNT_COLUMNS: Final = ("written", "inserted", "updated", "deleted", "quarantined")


def list_runs(
    config: Mapping[str, Any], *, limit: int, stream: str | None = None
) -> list[dict[str, Any]]:
    """Return the last runs of target-spark, newest run first, with one item per run and stream.

    They are read from the table of runs. Each run appends one row per stream to this table.

    Args:
        config: The settings of the target.
        limit: The maximum number of runs.
        stream: The stream whose rows are returned; None for all streams.

    Raises:
        TargetSparkError: There is no table of runs, or it cannot be read.
    """
    options = settings.load_options(config)
    with open_reader(config, options) as reader:
        return read_run_rows(reader, options, limit, stream)


def show_table(config: Mapping[str, Any], stream: str) -> dict[str, Any]:
    """Return an overview of a stream's table: columns, rows, times, quarantine and last runs.

    Args:
        config: The settings of the target.
        stream: The name of the stream.

    Raises:
        TargetSparkError: The stream has no table, or the table cannot be read.
    """
    options = settings.load_options(config)
    with open_reader(config, options) as reader:
        overview = read_table(reader, options, stream)
        runs = _find_runs(reader, options, _LAST_RUNS, stream) or []
        return {**overview, "runs": runs}


def read_table(
    reader: TableReader, options: LoadOptions, stream: str, *, samples: int = 0
) -> dict[str, Any]:
    """Return an overview of a stream's table: columns, rows, times and quarantine.

    Args:
        reader: The reader of tables.
        options: The options of the load, which determine the location of the table.
        stream: The name of the stream.
        samples: The maximum number of quarantined rows to include under ``samples``, newest first.

    Raises:
        TargetSparkError: The stream has no table, or the table cannot be read.
    """
    table, types = _find_table(reader, options, stream)
    metadata = reader.get_last_metadata(table)
    received = next((name for name in _TIME_COLUMNS if name in types), None)
    return {
        "stream": stream,
        "table": table.key,
        "format": options.format,
        "columns": dict(types),
        "rows": reader.count_rows(table),
        "bytes": reader.measure_size(table),
        "last_commit": reader.get_commit_time(table),
        "job": metadata and metadata.job,
        "run": metadata and metadata.run,
        "newest_row": None if received is None else reader.find_newest(table, received),
        "quarantine": _read_quarantine(reader, table.with_suffix(QUARANTINE), samples),
    }


def to_json(config: Mapping[str, Any], overview: Any) -> str:
    """Return ``overview``, a result of `list_runs` or `show_table`, as JSON text.

    Times are in ISO 8601. Secrets, such as those in the settings ``config``, are redacted. The text
    is ASCII, so that no terminal interprets a character of a name.
    """
    hide = make_redactor(config)
    document = json.loads(json.dumps(overview, default=_format_time))
    clean = clean_document(document, lambda text: hide(redact(text)), by_name=False)
    return json.dumps(clean, indent=2)


def describe_runs(config: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """Format ``rows``, the result of `list_runs`, as text; redact secrets of ``config`` in it."""
    text = _join_redacted(config, _format_runs(rows))
    return text or "The table of runs has no run of this stream."


def describe_table(config: Mapping[str, Any], overview: Mapping[str, Any]) -> str:
    """Format ``overview``, the result of `show_table`, as text; redact secrets of ``config``."""
    return _join_redacted(config, _format_table(overview))


@contextmanager
def open_reader(config: Mapping[str, Any], options: LoadOptions) -> Iterator[TableReader]:
    """Context manager that yields a table reader. The reader starts Spark only if necessary.

    Spark is stopped at the end of the block.
    """
    from target_spark.cli.table_reader import TableReader

    with start_spark_on_demand(settings.spark_settings(config)) as get_spark:
        yield TableReader(options.format, get_spark)


def read_run_rows(
    reader: TableReader, options: LoadOptions, limit: int, stream: str | None = None
) -> list[dict[str, Any]]:
    """Return the last runs of target-spark, newest first, with one item per run and stream.

    Raises:
        TableError: There is no table of runs.
    """
    rows = _find_runs(reader, options, limit, stream)
    if rows is None:
        raise TableError(
            f"There is no table of runs ({options.runs_table.key}). The first run that"
            " receives rows creates it, unless run_history is false."
        )
    return rows


def _find_runs(
    reader: TableReader, options: LoadOptions, limit: int, stream: str | None
) -> list[dict[str, Any]] | None:
    """Return rows of the table of runs, newest run first; None if the table does not exist."""
    table = options.runs_table
    if reader.get_column_types(table) is None:
        return None
    rows = [row for row in reader.read_rows(table) if stream in {None, row["stream"]}]
    rows.sort(key=_get_run_key)
    by_run = [list(group) for _, group in groupby(rows, _get_run_key)]
    return [row for group in reversed(by_run[-limit:]) for row in group]


def _get_run_key(row: Mapping[str, Any]) -> tuple[datetime, str]:
    return row["started"], row["run"]


def _find_table(
    reader: TableReader, options: LoadOptions, stream: str
) -> tuple[Table, Mapping[str, str]]:
    """Return the table of a stream, and the types of its columns by name.

    The name of the stream may have a namespace, as in ``namespace.name``.

    Raises:
        TableError: The stream has no table.
    """
    namespace, _, name = stream.rpartition(".")
    ids = [StreamId(stream), *([StreamId(name, namespace)] if namespace else [])]
    tables = [options.table(id_) for id_ in ids]
    for table in tables:
        types = reader.get_column_types(table)
        if types is not None:
            return table, types
    addresses = " nor ".join(table.key for table in tables)
    runs = _find_runs(reader, options, _LAST_RUNS, None) or []
    raise TableError(
        f"Stream {stream} has no table: there is no {options.format} table {addresses}."
        f"{suggest(stream, [row['stream'] for row in runs])} Check the name of the stream and the"
        " settings of its location."
    )


def _read_quarantine(reader: TableReader, table: Table, samples: int) -> dict[str, Any] | None:
    """Return the number of quarantined rows, their most frequent reasons, and the newest rows.

    ``samples`` is the maximum number of rows to return. Return None if the quarantine table does
    not exist.
    """
    if reader.get_column_types(table) is None:
        return None
    reasons = reader.count_items(table, "reasons", _MAX_REASONS)
    newest = {"samples": reader.read_quarantine(table, samples)} if samples else {}
    return {
        **newest,
        "table": table.key,
        "rows": reader.count_rows(table),
        "reasons": [{"reason": reason, "rows": rows} for reason, rows in reasons],
    }


# Text


def _join_redacted(config: Mapping[str, Any], lines: Iterator[str]) -> str:
    hide = make_redactor(config)
    return "\n".join(redact_line(hide(line)) for line in lines)


def _format_time(time: datetime) -> str:
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")


def _format_rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _format_runs(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for _, group in groupby(rows, _get_run_key):
        streams = list(group)
        run = streams[0]
        yield (
            f"{_format_time(run['started'])}  {run['outcome']} after {run['seconds']:,.1f} s,"
            f" job {run['job']}, run {run['run']}"
        )
        for row in streams:
            counts = [f"{row[name]:,} {name}" for name in _COUNT_COLUMNS if row[name]]
            yield f"  {row['stream']}: " + ", ".join([f"{row['received']:,} received", *counts])
            if row["schema_changes"]:
                yield f"    schema changes: {row['schema_changes']}"
        if run["error"]:
            yield f"  error: {run['error']}"


def _format_table(overview: Mapping[str, Any]) -> Iterator[str]:
    yield f"stream {overview['stream']}, {overview['format']} table {overview['table']}"
    yield f"rows: {overview['rows']:,}"
    if overview["last_commit"] is not None:
        of_run = f" (job {overview['job']}, run {overview['run']})" if overview["run"] else ""
        yield f"last commit: {_format_time(overview['last_commit'])}{of_run}"
    if overview["newest_row"] is not None:
        yield f"newest row received: {_format_time(overview['newest_row'])}"
    quarantine = overview["quarantine"]
    if quarantine is not None:
        yield f"quarantine: {_format_rows(quarantine['rows'])} in {quarantine['table']}"
        for reason in quarantine["reasons"]:
            yield f"  {_format_rows(reason['rows'])}: {reason['reason']}"
    yield "columns:"
    for name, ddl in overview["columns"].items():
        yield f"  {name} {ddl}"
    if overview["runs"]:
        yield f"last runs (table {RUNS}):"
        for line in _format_runs(overview["runs"]):
            yield f"  {line}"
