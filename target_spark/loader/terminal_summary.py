"""Lines printed on a terminal after a run: table locations, a command to read a table, and advice.

They are printed after the summary of the run report, which has the row counts.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from target_spark.config.settings import get_path, with_defaults
from target_spark.loader.report import Report
from target_spark.phase_timing import FETCH, START
from target_spark.spark.jvm import has_class_archive
from target_spark.storage.uris import to_local_folder

__all__ = ["suggest_faster_start", "summarize_tables"]

_SHOWN: Final = 10
"""Maximum number of tables whose locations are printed."""

_SMALL_ROWS: Final = 50_000
"""Maximum number of rows of a run for which ``small_batches: delta-rs`` is suggested."""
_SMALL_RUN: Final = 1_000_000
"""Maximum number of rows of a run for which ``small_runs: true`` is suggested."""
_MIN_SECONDS: Final = 5.0
"""Advice is printed only if Spark took at least this number of seconds to start."""

_READ: Final = {
    # The file system of deltalake is Python code. A thread of Arrow that still reads with it when
    # the process ends would abort the process.
    "delta": "from deltalake import DeltaTable; from pyarrow.fs import *; t = {};"
    " print(DeltaTable(t).to_pyarrow_table(filesystem=SubTreeFileSystem(t, LocalFileSystem())))",
    "parquet": "from pyarrow.parquet import read_table; print(read_table({}))",
}
"""Python code that prints a table, by table format. ``{}`` stands for the table's folder."""


def summarize_tables(report: Report, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines with the locations of the tables of a run, and a command that reads one of them.

    For a Delta or Parquet table in a local folder, the command is a line of Python that needs no
    Spark. For other tables it is `target-spark show`, which starts Spark.

    Args:
        report: The report of the run.
        config: The settings of the run.
    """
    if config.get("dry_run"):
        return
    locations = {name: counts.place for name, counts in report.streams().items() if counts.written}
    for name, location in list(locations.items())[:_SHOWN]:
        yield f"table of {name}: {_find_folder(location) or location}"
    if len(locations) > _SHOWN:
        yield f"and {len(locations) - _SHOWN:,} more tables"
    code = _READ.get(with_defaults(config)["format"])
    folder = next(filter(None, map(_find_folder, locations.values())), None)
    if code is not None and folder is not None:
        read = code.format(json.dumps(folder))
        yield f"to print a table: {shlex.join([sys.executable, '-c', read])}"
    elif locations:
        yield f"to show a table: {report.show_command(next(iter(locations)))}"


def suggest_faster_start(report: Report, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line of advice if Spark's start took most of a run and settings can shorten it.

    Args:
        report: The report of the run.
        config: The settings of the run.
    """
    start = report.phases.seconds(START) - report.phases.seconds(FETCH)
    total = report.as_dict()["seconds"]
    if start < max(_MIN_SECONDS, total / 2):
        return
    rows = sum(counts.received for counts in report.streams().values())
    if advice := "; ".join(_find_faster_settings(rows, config)):
        yield f"The start of Spark took {start:.0f} of {total:.0f} s. To start faster: {advice}."


def _find_folder(location: str) -> str | None:
    """Return the absolute path of a table's local folder; None if it is remote or in a catalog."""
    folder = to_local_folder(location)
    return str(folder) if folder is not None and folder.is_dir() else None


def _find_faster_settings(rows: int, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield advice to start Spark faster, such as "set small_runs to true".

    ``rows`` is the number of rows that the run received; ``config`` has its settings.
    """
    complete = with_defaults(config)
    if complete.get("remote") or not (complete.get("master") or "local").startswith("local"):
        return
    is_in_catalog = bool(complete.get("catalog") or complete.get("database"))
    is_local = not is_in_catalog and to_local_folder(get_path(complete)) is not None
    is_small = rows <= _SMALL_ROWS and complete["format"] == "delta"
    if is_local and is_small and complete["small_batches"] != "delta-rs":
        yield "set small_batches to delta-rs, which commits small batches without Spark"
    if complete["engine"] != "keep" and not is_in_catalog:
        yield "set engine to keep, so that Spark stays for the next run"
    if not has_class_archive():
        iceberg = " iceberg" if complete["format"] == "iceberg" else ""
        yield f"run python -m target_spark.spark.class_archive{iceberg} once"
    if rows <= _SMALL_RUN and not complete["small_runs"]:
        yield "set small_runs to true"
