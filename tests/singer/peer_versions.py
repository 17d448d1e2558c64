"""A tap and a target of table versions; run on either SDK, one of them by its first word.

Imports singer_sdk, which is the real one in its own interpreter and
tap_core under `tap-core run`. The target writes down what its sink was asked to do.
"""

# mypy: ignore-errors

from __future__ import annotations

import sys
from pathlib import Path

from singer_sdk import RecordSink, Stream, Tap, Target
from singer_sdk import typing as th


class Table(Stream):
    """A small table."""

    primary_keys = ("id",)
    schema = th.PropertiesList(th.Property("id", th.IntegerType)).to_dict()

    def get_records(self, context):
        yield from ({"id": number} for number in range(3))


class Full(Table):
    """Sent anew each time."""

    name = "full"


class Growing(Table):
    """Sent from its bookmark on: it has no versions."""

    name = "growing"
    replication_key = "id"


class TapVersions(Tap):
    """A tap of both."""

    name = "tap-versions"
    config_jsonschema = th.PropertiesList(
        th.Property("emit_activate_version_messages", th.BooleanType)
    ).to_dict()

    def discover_streams(self):
        return [Full(self), Growing(self)]


class Diary(RecordSink):
    """Writes down what it is asked to do."""

    def note(self, *words):
        with Path(self.config["path"]).open("a") as file:
            print(self.stream_name, *words, file=file)

    def process_record(self, record, context):
        self.note("record", record["id"], "_sdc_table_version" in record)

    def activate_version(self, new_version):
        self.note("activates", new_version > 1_600_000_000)


class TargetVersions(Target):
    """A target that keeps a diary."""

    name = "target-versions"
    config_jsonschema = th.PropertiesList(th.Property("path", th.StringType)).to_dict()
    default_sink_class = Diary


if __name__ == "__main__":
    kind = {each.name: each for each in (TapVersions, TargetVersions)}[sys.argv.pop(1)]
    kind.cli()
