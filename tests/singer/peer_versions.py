"""A tap and a target of table versions that run on either SDK; the first argument selects one.

The module imports singer_sdk, which is the real one in its own interpreter and tap_core under
`tap-core run`. The target logs the calls of its sink.
"""

# mypy: ignore-errors

from __future__ import annotations

import sys
from pathlib import Path

from singer_sdk import RecordSink, Stream, Tap, Target
from singer_sdk import typing as th


class Table(Stream):
    """A stream of a few rows."""

    primary_keys = ("id",)
    schema = th.PropertiesList(th.Property("id", th.IntegerType)).to_dict()

    def get_records(self, context):
        yield from ({"id": number} for number in range(3))


class Full(Table):
    """A full-table stream."""

    name = "full"


class Growing(Table):
    """An incremental stream, which has no versions."""

    name = "growing"
    replication_key = "id"


class TapVersions(Tap):
    """A tap of both streams."""

    name = "tap-versions"
    config_jsonschema = th.PropertiesList(
        th.Property("emit_activate_version_messages", th.BooleanType)
    ).to_dict()

    def discover_streams(self):
        return [Full(self), Growing(self)]


class Diary(RecordSink):
    """A sink that logs its calls."""

    def note(self, *values):
        with Path(self.config["path"]).open("a") as file:
            print(self.stream_name, *values, file=file)

    def process_record(self, record, context):
        self.note("record", record["id"], "_sdc_table_version" in record)

    def activate_version(self, new_version):
        self.note("activates", new_version > 1_600_000_000)


class TargetVersions(Target):
    """A target with that sink."""

    name = "target-versions"
    config_jsonschema = th.PropertiesList(th.Property("path", th.StringType)).to_dict()
    default_sink_class = Diary


if __name__ == "__main__":
    kind = {each.name: each for each in (TapVersions, TargetVersions)}[sys.argv.pop(1)]
    kind.cli()
