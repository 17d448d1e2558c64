"""The table of runs ``_target_spark_runs``, which has one row per run and stream.

The values are those of the run's report, without secrets. Later releases may add columns, but never
remove a column or change its meaning.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Final

from target_spark.columns import Column, ColumnType, Double, Integer, TableSchema, Text, Timestamp
from target_spark.loader.report import split_outcome

__all__ = ["SCHEMA", "build_rows"]

_COUNTS: Final = (
    "received",
    "written",
    "inserted",
    "updated",
    "deleted",
    "quarantined",
    "bytes",
    "commits",
)
"""The columns with counts of rows, bytes and commits. The run's report has the same names."""

_COLUMNS: Final[Mapping[str, ColumnType]] = {
    "job": Text(),
    "run": Text(),
    "stream": Text(),
    "table": Text(),
    "started": Timestamp(),
    "ended": Timestamp(),
    "seconds": Double(),
    **dict.fromkeys(_COUNTS, Integer()),
    "schema_changes": Text(),
    "state_before": Text(),
    "state_after": Text(),
    "outcome": Text(),
    "error": Text(),
    "target_spark_version": Text(),
    "format": Text(),
    "library_versions": Text(),
}
SCHEMA: Final = TableSchema(tuple(Column(name, name, type_) for name, type_ in _COLUMNS.items()))
"""The columns of the table of runs, ``_target_spark_runs``."""

_STATE_CHARACTERS: Final = 4 << 20
"""Maximum total characters of the states in the rows of one run. Longer states are not stored."""


def build_rows(
    report: Mapping[str, Any], states: tuple[str | None, str | None], versions: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return a run's rows for the table ``_target_spark_runs``: one dict per stream.

    Each row has the states before and after the run. If the states in all rows would have more than
    4 Mi characters, they are null instead.

    Args:
        report: The report of the run with its outcome, as `Report.as_dict` returns it.
        states: The Singer states before and after the run, each of which may be None.
        versions: The values of the columns ``target_spark_version`` and ``library_versions``.
    """
    streams = report["streams"]
    outcome, error = split_outcome(report["outcome"])
    is_small = sum(map(len, filter(None, states))) * len(streams) <= _STATE_CHARACTERS
    before, after = states if is_small else (None, None)
    of_run = {
        "job": report["job"],
        "run": report["run"],
        "started": datetime.fromtimestamp(report["started"] / 1000, timezone.utc),
        "ended": datetime.now(timezone.utc),
        "seconds": report["seconds"],
        "state_before": before,
        "state_after": after,
        "outcome": outcome,
        "error": error,
        "format": report["format"],
        **versions,
    }
    return [
        {
            **of_run,
            "stream": name,
            "table": counts["table"],
            **{column: counts[column] for column in _COUNTS},
            "schema_changes": json.dumps(counts["changes"]) if counts["changes"] else None,
        }
        for name, counts in streams.items()
    ]
