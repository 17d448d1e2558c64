"""A tap of SQLite files and one of folders, as programs: ``sample_taps.py sql|files --port 0``."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from tap_core import typing as th
from tap_core.contrib.filesystem import FileStream, FolderTap
from tap_core.sql import SQLConnector, SQLStream, SQLTap
from tap_core.types import JsonSchema, Record


class Connector(SQLConnector):
    def get_sqlalchemy_url(self, config: Mapping[str, Any]) -> str:
        return f"sqlite:///{config['path']}"


class Table(SQLStream):
    connector_class = Connector
    supports_nulls_first = True


class TapTables(SQLTap):
    """Tables and views of a SQLite file; tables are read by their column ``changed_at``."""

    name = "tap-tables"
    default_stream_class = Table
    config_jsonschema = th.PropertiesList(
        th.Property("path", th.StringType, required=True)
    ).to_dict()

    def discover_streams(self) -> list[Any]:
        streams = list(super().discover_streams())
        for stream in streams:
            if "changed_at" in stream.schema["properties"]:
                stream.catalog_entry["replication_key"] = "changed_at"
                stream.catalog_entry["replication_method"] = "INCREMENTAL"
                stream.replication_key = "changed_at"
        return streams


class CSVStream(FileStream):
    def get_schema(self, path: str) -> JsonSchema:
        with self.filesystem.open(path, "r") as file:
            names = next(csv.reader(file))
        return th.PropertiesList(*(th.Property(name, th.StringType) for name in names)).to_dict()

    def read_file(self, path: str) -> Iterable[Record]:
        with self.filesystem.open(path, "r") as file:
            yield from csv.DictReader(file)


class TapFiles(FolderTap[CSVStream]):
    name = "tap-files"
    valid_extensions = (".csv",)
    default_stream_class = CSVStream
    config_jsonschema = th.PropertiesList(th.Property("note", th.StringType)).to_dict()


if __name__ == "__main__":
    {"sql": TapTables, "files": TapFiles}[sys.argv[1]].cli(sys.argv[2:])
