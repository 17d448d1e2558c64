"""Plugins for the tests of the Singer command line; the first argument selects one.

The target prints its input's line count, so that the tests need no Spark.
"""

from __future__ import annotations

import os
import sys
import time
import warnings

from tap_core.plugin_base import PluginBase
from tap_core.protocols.singer.cli import target_command
from tap_core.streams.core import Stream
from tap_core.tap_base import Tap


class Numbers(Stream):
    """A stream that counts to `n`."""

    name = "numbers"
    primary_keys = ("id",)
    replication_key = "id"
    is_sorted = True
    schema = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "text": {"type": "string"}},
    }

    def get_records(self, context):
        start = self.get_starting_replication_key_value(context) or 0
        for number in range(start, self.config["n"]):
            if number == self.config.get("fail_at"):
                raise ValueError(f"no number {number}")
            yield {"id": number, "text": "x" * 100}
        if self.config.get("hang"):
            time.sleep(60)


class TapX(Tap):
    """A tap of numbers."""

    name = "tap-x"
    config_jsonschema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "default": 3},
            "fail_at": {"type": "integer"},
            "hang": {"type": "boolean"},
            "warn": {"type": "boolean", "default": False},
            "api_key": {"type": "string", "secret": True},
        },
        "required": ["api_key"],
    }

    def discover_streams(self):
        if self.config["warn"]:
            warnings.warn("an old way", DeprecationWarning, stacklevel=1)
        return [Numbers(self)]


class DynamicTap(TapX):
    """A tap whose discovery reads the source."""

    dynamic_catalog = True


class TargetX(PluginBase):
    """A target that counts lines."""

    name = "target-x"
    config_jsonschema = {
        "type": "object",
        "properties": {"path": {"type": "string"}, "code": {"type": "integer", "default": 0}},
        "required": ["path"],
    }

    def listen(self, source) -> int:
        lines = source.read().splitlines()
        print(f"{len(lines)} lines to {self.config['path']}")
        return self.config["code"]

    @classmethod
    def get_singer_command(cls):
        return target_command(cls, cls.listen)


if __name__ == "__main__":
    if os.environ.get("LOADED"):
        import atexit

        atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))
    {"tap": TapX, "dynamic": DynamicTap, "target": TargetX}[sys.argv.pop(1)].cli()
