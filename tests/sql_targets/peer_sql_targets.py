"""A SQLite target that tap_core and singer_sdk run; only the import lines differ."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import io
import json
import sqlite3
import sys
from pathlib import Path

from tap_core import typing as th
from tap_core.helpers._conformers import replace_leading_digit, snakecase
from tap_core.sql import SQLConnector, SQLSink, SQLTarget

for kind, adapter in {
    dt.date: dt.date.isoformat,
    dt.datetime: dt.datetime.isoformat,
    dt.time: dt.time.isoformat,
    decimal.Decimal: str,
    dict: lambda value: json.dumps(value, default=str),
    list: lambda value: json.dumps(value, default=str),
}.items():
    sqlite3.register_adapter(kind, adapter)


class FileConnector(SQLConnector):
    allow_temp_tables = False

    def get_sqlalchemy_url(self, config):
        return f"sqlite:///{config['path']}"


class FileSink(SQLSink[FileConnector]):
    connector_class = FileConnector


class FileTarget(SQLTarget):
    name = "target-file"
    default_sink_class = FileSink
    max_parallelism = 1
    config_jsonschema = th.PropertiesList(
        th.Property("path", th.StringType, required=True)
    ).to_dict()


def run(path, lines, config):
    """Run a target; return its error's class, or SQLAlchemy's base of it, and its last state."""
    out, error = io.StringIO(), None
    with contextlib.redirect_stdout(out):
        try:
            target = FileTarget(config={"path": str(path), **config})
            target.listen(io.StringIO("".join(lines)))
        except Exception as raised:  # noqa: BLE001  the tests compare the errors
            classes = type(raised).__mro__
            of_sqlalchemy = (
                error_class for error_class in classes if error_class.__module__ == "sqlalchemy.exc"
            )
            error = next(of_sqlalchemy, type(raised)).__name__
    states = [json.loads(line) for line in out.getvalue().splitlines()]
    return {"error": error, "state": states[-1:]}


def read_rows(database, table):
    return database.execute(f'SELECT * FROM "{table}"').fetchall()  # noqa: S608


def content(path):
    """Return the CREATE TABLE statement and the rows of each table of a database."""
    if not path.exists():
        return {}
    with contextlib.closing(sqlite3.connect(path)) as database:
        tables = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
        return {
            name: [" ".join(sql.split()), read_rows(database, name)]
            for name, sql in tables.fetchall()
        }


def conformed(name):
    """Return the name as each of the conforming functions returns it."""
    by_sink = [FileSink.conform_name(None, name, *arguments) for arguments in ((), ("table",))]
    return [*by_sink, snakecase(name), replace_leading_digit(name)]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    inputs = json.loads((folder / "cases.json").read_text())
    results = {"cases": {}, "names": {name: conformed(name) for name in inputs["names"]}}
    for name, case in inputs["cases"].items():
        path = folder / f"{name}.db"
        ends = [run(path, lines, case.get("config", {})) for lines in case["runs"]]
        results["cases"][name] = {"ends": ends, "content": content(path)}
    about = json.loads(json.dumps(FileTarget._get_about_info().settings))
    results["settings"] = sorted(about["properties"])
    results["capabilities"] = sorted(each.value for each in FileTarget.capabilities)
    (folder / "results.json").write_text(json.dumps(results, default=str))
