"""The HTML report: one page with runs, tables, schema changes, quarantined rows and states.

The page is one file without scripts and external resources. Secrets are redacted, and control
characters and HTML are escaped. For a table that cannot be read, the page shows the error.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from decimal import Decimal
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tap_core.exceptions import ConfigurationError
from tap_core.io.private_files import make_parents, replace_file
from tap_core.redaction import clean_document, make_redactor, redact_lines
from tap_core.redaction.row_values import show_value
from target_spark.cli.table_overview import read_run_rows, read_table
from target_spark.config.options import LoadOptions
from target_spark.errors import TableError
from target_spark.loader.report import COMPLETE
from target_spark.storage.commit_retry import first_error_line

if TYPE_CHECKING:
    from target_spark.cli.report_plots import Plot
    from target_spark.cli.table_reader import TableReader

__all__ = ["write_html_report"]

_SAMPLES: Final = 5
_LONGEST_TEXT: Final = 10_000
"""Maximum length in characters of a state or a record on the page; the rest is cut off."""

_COUNTS: Final = ("received", "written", "inserted", "updated", "deleted", "quarantined")
_RUN_COLUMNS: Final = ("job", "run", "started", "ended", "seconds", "outcome", "error")
_SHOWN_COLUMNS: Final = ("run", "started", "stream", "table", *_COUNTS, "bytes", "commits")
"""Columns of the table of runs that the page shows.

In this table, each run of target-spark has one row per stream.
"""

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")
_EXTRA_PACKAGES: Final = {"jinja2", "markupsafe", "pygal"}


def write_html_report(
    config: Mapping[str, Any],
    options: LoadOptions,
    reader: TableReader,
    path: str,
    limit: int = 20,
) -> None:
    """Write the HTML report to a file that only the current user can read.

    Args:
        config: The settings of the target, whose secrets are redacted.
        options: The options of the load, which determine the locations of the tables.
        reader: The reader of the tables.
        path: The path of the file, which is replaced atomically. Missing folders are created.
        limit: The number of newest runs that the report contains.

    Raises:
        ConfigurationError: A library of the extra ``report`` is missing.
        OSError: The file cannot be written.
        TargetSparkError: The table of runs is missing or empty, or cannot be read.
    """
    try:
        import jinja2

        from target_spark.cli.report_plots import COLORS
    except ModuleNotFoundError as missing:
        if missing.name not in _EXTRA_PACKAGES:
            raise
        raise ConfigurationError(
            f"The HTML report needs the package {missing.name}, which is missing: run"
            " pip install 'tap-core-sdk[report]'."
        ) from missing
    hide = make_redactor(config)

    def clean(text: str) -> str:
        return redact_lines(hide(text))

    page = _read_page(options, reader, limit, clean)
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "time": _format_time,
        "duration": _format_duration,
        "count": "{:,}".format,
        "bytes": _format_bytes,
    }
    template = files("target_spark.cli").joinpath("report.html.jinja").read_text(encoding="utf-8")
    html = environment.from_string(template).render(**page, plots=_draw(page), colors=COLORS)
    file = Path(path)
    try:
        make_parents(file)
        replace_file(file, html + "\n")
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written: {error.strerror}. Name a file in a folder"
            " that this user may write."
        ) from error


# Data


def _read_page(
    options: LoadOptions, reader: TableReader, limit: int, clean: Callable[[str], str]
) -> dict[str, Any]:
    """Read the tables, and return the values for the template of the HTML report.

    The function ``clean`` redacts secrets in a text. ``limit`` is the maximum number of runs.
    """
    rows = read_run_rows(reader, options, limit)
    if not rows:
        raise TableError(f"The table of runs ({options.runs_table.key}) is empty.")
    now = datetime.now(timezone.utc)
    tables = [
        _try_read_table(reader, options, stream, clean)
        for stream in sorted({row["stream"] for row in rows})
    ]
    page = {
        "written": now,
        "runs": [
            _describe_run(list(group), clean) for _, group in groupby(rows, lambda row: row["run"])
        ],
        "rows": [{name: row[name] for name in _SHOWN_COLUMNS} for row in rows],
        "tables": [_add_lateness(table, rows, now) for table in tables],
        "changes": [
            {**change, "stream": row["stream"], "started": row["started"]}
            for row in rows
            for change in json.loads(row["schema_changes"] or "[]")
        ],
        "location": options.runs_table.key,
        "format": options.format,
    }
    cleaned: dict[str, Any] = clean_document(page, clean, by_name=False)
    return cleaned


def _describe_run(rows: Sequence[Mapping[str, Any]], clean: Callable[[str], str]) -> dict[str, Any]:
    """Return the values that the HTML report shows for one run, such as its outcome.

    ``rows`` are this run's rows in the table of runs, one per stream. ``clean`` redacts a text.
    """
    first = rows[0]
    return {
        **{name: first[name] for name in _RUN_COLUMNS},
        "is_complete": first["outcome"] == COMPLETE,
        "quarantined": sum(row["quarantined"] for row in rows),
        "before": _show_document(first["state_before"], clean),
        "after": _show_document(first["state_after"], clean),
    }


def _try_read_table(
    reader: TableReader, options: LoadOptions, stream: str, clean: Callable[[str], str]
) -> dict[str, Any]:
    """Return an overview of a stream's table, or the error text if the table cannot be read.

    ``clean`` is a function that redacts secrets and escapes control characters in a text.
    """
    try:
        overview = read_table(reader, options, stream, samples=_SAMPLES)
        for row in (overview["quarantine"] or {}).get("samples", ()):
            row["raw"] = _show_document(row["raw"], clean, is_record=True)
    except Exception as error:  # noqa: BLE001  the rest of the page is of use
        return {"stream": stream, "fault": first_error_line(error), "quarantine": None}
    return {**overview, "fault": None}


def _add_lateness(
    table: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], now: datetime
) -> dict[str, Any]:
    """Return a table's overview with two durations in seconds added, each None if unknown.

    ``since_commit`` is the time since the last commit. ``behind`` is the time from the newest row
    to the end of the stream's last run.

    ``rows`` are rows of the table of runs, each of one run and stream. At least one of them is of
    the stream to which ``table`` belongs.
    """
    ended = max(row["ended"] for row in rows if row["stream"] == table["stream"])
    commit, newest = table.get("last_commit"), table.get("newest_row")
    return {
        **table,
        "since_commit": None if commit is None else max((now - commit).total_seconds(), 0.0),
        "behind": None if newest is None else max((ended - newest).total_seconds(), 0.0),
    }


def _show_document(
    text: str | None, clean: Callable[[str], str], *, is_record: bool = False
) -> str | None:
    """Return the JSON text of a state or a record, indented and shortened; or None without a text.

    The function ``clean`` redacts secrets and escapes control characters. Numbers keep all their
    digits. If ``is_record`` is True and the settings forbid that messages show values of rows, the
    values are hidden.
    """
    if text is None:
        return None
    try:
        document = json.loads(text, parse_float=Decimal, parse_int=Decimal, parse_constant=str)
        cleaned = _ENCODER.encode(clean_document(document, clean))
        text_shown = msgspec.json.format(cleaned, indent=2).decode()
    except (ArithmeticError, RecursionError, ValueError):  # no JSON, or nested too deeply
        document, text_shown = text, clean(text)
    if is_record:
        text_shown = show_value(document, text_shown)
    if len(text_shown) > _LONGEST_TEXT:
        return f"{text_shown[:_LONGEST_TEXT]}… ({len(text_shown):,} characters in all)"
    return text_shown


# Plots


def _draw(page: Mapping[str, Any]) -> dict[str, list[Plot]]:
    """Return the bar charts of the report under the keys "runs" and "tables", its two sections.

    ``page`` is the result of `_read_page`.
    """
    from target_spark.cli.report_plots import plot_by_stream, plot_per_run

    runs = page["runs"][::-1]
    labels = [f"{run['started']:%m-%d %H:%M:%S}" for run in runs]
    seconds = {"seconds": [run["seconds"] for run in runs]}
    run_plots = [plot_per_run("Time per run", "outcomes", labels, seconds, _format_duration)]
    for title, column, format_value in _PER_RUN:
        values = _collect_by_stream(page, column)
        run_plots.append(plot_per_run(title, "counts", labels, values, format_value))
    table_plots = []
    for title, name, format_value in _PER_TABLE:
        known = {
            table["stream"]: table[name] for table in page["tables"] if table.get(name) is not None
        }
        if known:
            table_plots.append(plot_by_stream(title, "tables", known, format_value))
    return {"runs": run_plots, "tables": table_plots}


def _collect_by_stream(page: Mapping[str, Any], column: str) -> dict[str, list[float]]:
    """Return one number per stream and run, such as the rows received, for a bar chart.

    Args:
        page: The values for the template of the report, as `_read_page` returns them.
        column: The column of the table of runs with the number, such as "received".

    Returns:
        The numbers of each stream, from the oldest to the newest run; 0 for a run without the
        stream. Streams with the most received rows come first.
    """
    position = {run["run"]: number for number, run in enumerate(reversed(page["runs"]))}
    received: Counter[str] = Counter()
    values: dict[str, list[float]] = {}
    for row in page["rows"]:
        received[row["stream"]] += row["received"]
        of_stream = values.setdefault(row["stream"], [0] * len(position))
        of_stream[position[row["run"]]] += row[column]
    return {stream: values[stream] for stream, _ in received.most_common()}


# Text


def _format_time(time: datetime) -> str:
    return f"{time.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def _format_duration(seconds: float) -> str:
    if seconds < 60:  # noqa: PLR2004  a minute
        return f"{seconds:.2f} s"
    minutes, hours = seconds / 60, seconds / 3600
    if hours < 1:
        return f"{minutes:.1f} min"
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:,.1f} days"  # noqa: PLR2004  two days


def _format_bytes(nbytes: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if nbytes < 1000:  # noqa: PLR2004  decimal units
            return f"{nbytes:,.0f} bytes" if unit == "bytes" else f"{nbytes:.1f} {unit}"
        nbytes /= 1000
    return f"{nbytes:,.1f} TB"


_format_rows: Final = "{:,.0f} rows".format
_PER_RUN: Final[Sequence[tuple[str, str, Callable[[float], str]]]] = (
    ("Rows received per run", "received", _format_rows),
    ("Rows written per run", "written", _format_rows),
    ("Size received per run", "bytes", _format_bytes),
)
"""Bar charts with one bar per run. Each item has a title, the column of the table of runs with the
values, and a function that formats a value."""

_PER_TABLE: Final[Sequence[tuple[str, str, Callable[[float], str]]]] = (
    ("Time since the last commit", "since_commit", _format_duration),
    ("Age of the newest row at the end of the last run", "behind", _format_duration),
    ("Rows per table", "rows", _format_rows),
    ("Size per table", "bytes", _format_bytes),
)
"""Bar charts with one bar per table. Each item has a title, the key of the value in the table's
overview, and a function that formats a value."""
