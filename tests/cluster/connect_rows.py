"""Print the rows of a table through a Spark Connect server; runs in a client's environment."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any


def _read(request: Mapping[str, Any]) -> list[list[Any]]:
    """Read a table with its writer."""
    from target_spark.spark.connect_session import ConnectSession
    from target_spark.spark.session import SparkSettings
    from target_spark.tables.table import Table
    from target_spark.writers import get_writer

    session = ConnectSession(
        SparkSettings(remote=request["remote"], format=request["format"])
    ).start()
    table = Table(f"{request['path']}/{request['table']}", request["table"])
    try:
        rows = get_writer(request["format"]).rows(session.spark(), table)
        table_rows = rows.selectExpr(*request["columns"]).collect()
        return [[_to_json_value(value) for value in row] for row in table_rows]
    finally:
        session.stop()


def _to_json_value(value: Any) -> Any:
    return value if value is None or isinstance(value, int | float) else str(value)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_read(json.loads(sys.argv[1]))))
