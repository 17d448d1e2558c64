"""A tap that prints, writes messages itself, exits, waits or uses threads.

The setting `action` selects the behaviour.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

from tap_core import Stream, Tap
from tap_core import typing as th
from tap_core.singerlib.messages import RecordMessage, StateMessage

ROWS = 2_500


class Numbers(Stream):
    """A sorted stream of as many rows as the setting `rows`."""

    name = "numbers"
    primary_keys = ("id",)
    replication_key = "id"
    is_sorted = True
    STATE_MSG_FREQUENCY = 100
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType), th.Property("text", th.StringType)
    ).to_dict()

    def get_records(self, context):
        since = self.get_starting_replication_key_value(context) or 0
        action = self.config.get("action")
        for number in range(since, self.config.get("rows", ROWS)):
            if number == 150:
                self.at_150(action)
            yield {"id": number, "text": "x" * (number % 50)}

    def at_150(self, action):
        if action == "prints":
            print("no line of the protocol's")
            os.write(1, b"half a line")
            subprocess.run(["echo", "a child's line"], check=True)
        elif action == "writes":
            record = {"id": -1, "text": "by hand"}
            self._tap.write_message(RecordMessage(self.name, record))
            self._tap.message_writer.write_message(RecordMessage(self.name, {"id": -2}))
            self._tap.write_message(StateMessage({"bookmarks": {"numbers": {"mine": 1}}}))
        elif action == "leaves":
            sys.exit(0)
        elif action == "waits":
            for _ in range(600):
                time.sleep(0.1)
                self.logger.info("still waiting")


class Batched(Numbers):
    """The same stream; the setting `batch_config` would make it write files."""

    name = "batched"


class Cells(Stream):
    """A stream with eight partitions and four worker threads."""

    name = "cells"
    primary_keys = ("p", "id")
    replication_key = "id"
    max_parallel_partitions = 4
    partitions = [{"p": number} for number in range(8)]
    STATE_MSG_FREQUENCY = 200
    schema = th.PropertiesList(
        th.Property("p", th.IntegerType), th.Property("id", th.IntegerType)
    ).to_dict()
    seen: set = set()

    def get_records(self, context):
        for number in range(700):
            self.seen.add(threading.current_thread().name)
            if number % 100 == 0:
                self.logger.info("at %d", number)
            yield {"id": number}


class Leaves(Cells):
    """A second stream with worker threads, the parent of veins."""

    name = "leaves"

    def get_child_context(self, record, context):
        return {"id": record["id"]} if record["id"] % 350 == 0 and context["p"] < 2 else None


class Veins(Stream):
    """The child stream of leaves."""

    name = "veins"
    parent_stream_type = Leaves
    max_parallel_partitions = 2
    state_partitioning_keys = ()
    schema = th.PropertiesList(th.Property("of", th.IntegerType)).to_dict()

    def get_records(self, context):
        yield {"of": context["id"]}


class TapWays(Tap):
    """Tap with the streams of this module."""

    name = "tap-ways"
    max_parallel_streams = 3
    config_jsonschema = th.PropertiesList(
        th.Property("action", th.StringType),
        th.Property("rows", th.IntegerType),
    ).to_dict()

    def discover_streams(self):
        return [Numbers(self), Batched(self), Cells(self), Leaves(self), Veins(self)]


if __name__ == "__main__":
    TapWays.cli()
