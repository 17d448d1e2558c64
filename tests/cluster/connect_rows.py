"""Print the rows of a table through a Spark Connect server; runs in a client's environment."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any


def _read(asked: Mapping[str, Any]) -> list[list[Any]]:
    """Read a table with its writer."""
    from target_spark.spark.connect_session import ConnectSession
    from target_spark.spark.session import SparkSettings
    from target_spark.tables.table import Table
    from target_spark.writers import get_writer

    session = ConnectSession(SparkSettings(remote=asked["remote"], format=asked["format"])).start()
    table = Table(f"{asked['path']}/{asked['table']}", asked["table"])
    try:
        rows = get_writer(asked["format"]).rows(session.spark(), table)
        found = rows.selectExpr(*asked["columns"]).collect()
        return [[_plain(value) for value in row] for row in found]
    finally:
        session.stop()


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, int | float) else str(value)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_read(json.loads(sys.argv[1]))))
