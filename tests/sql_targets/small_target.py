"""A minimal SQL target, and functions that run it and read its tables."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from tap_core import typing as th
from tap_core.sql.connector import SQLConnector
from tap_core.sql.sink import SQLSink
from tap_core.sql.target import SQLTarget

__all__ = ["SmallConnector", "SmallSink", "SmallTarget", "load", "read_rows", "read_types"]


class SmallConnector(SQLConnector):
    @property
    def jsonschema_to_sql(self):
        to_sql = super().jsonschema_to_sql
        to_sql.register_type_handler("integer", sa.BIGINT)
        return to_sql


class SmallSink(SQLSink[SmallConnector]):
    connector_class = SmallConnector


class SmallTarget(SQLTarget):
    name = "target-small"
    config_jsonschema = th.PropertiesList(
        th.Property("sqlalchemy_url", th.StringType, required=True, secret=True)
    ).to_dict()
    default_sink_class = SmallSink


def load(kind: type[SQLTarget], url: str, *lines: str, **config: Any) -> list[Any]:
    """Run a target on messages; return the states that it wrote."""
    target = kind(config={"sqlalchemy_url": url, **config})
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            target.listen(io.StringIO("".join(lines)))
    finally:
        for sink in target._sinks_active.values():
            assert isinstance(sink, SQLSink)
            sink.connector._engine.dispose()
    return [json.loads(line) for line in out.getvalue().splitlines()]


@contextlib.contextmanager
def connected(url: str) -> Iterator[sa.Connection]:
    engine = sa.create_engine(url)
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def read_rows(url: str, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query or a table, as the driver reads them."""
    text = query if " " in query else f"SELECT * FROM {query}"  # noqa: S608
    with connected(url) as connection:
        return [tuple(row) for row in connection.exec_driver_sql(text)]


def read_types(url: str, table: str, schema: str | None = None) -> dict[str, str]:
    """Return the columns of a table with their types."""
    with connected(url) as connection:
        columns = sa.inspect(connection).get_columns(table, schema)
    return {column["name"]: str(column["type"]) for column in columns}
