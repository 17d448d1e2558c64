"""A tap that tests end by a signal or a closed pipe: ``terminated_taps.py --config FILE``."""

from __future__ import annotations

import signal
import sys
import time
import weakref

from tap_core import Stream, Tap

INTEGER = {"type": "integer"}
LONG = 120


class Connection:
    """A connection that a signal interrupts while it is closed."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)
        time.sleep(0)


class Rows(Stream):
    """Three records, then the behaviour of the setting ``ends``."""

    name = "a"
    primary_keys = ("id",)
    replication_key = "id"
    is_sorted = True
    schema = {"type": "object", "properties": {"id": INTEGER, "text": {"type": "string"}}}
    STATE_MSG_FREQUENCY = 1_000

    def get_records(self, context):
        ends = self.config["ends"]
        for number in range(3):
            yield {"id": number}
        if ends == "sleeping":
            time.sleep(LONG)
        if ends == "__del__":
            Connection()  # is deleted at once
        if ends == "weakref":
            weakref.finalize(Other, lambda: signal.raise_signal(signal.SIGTERM))()
        if ends == "failing":
            raise RuntimeError("the source is on fire")
        if ends == "swallowing":
            yield from self.swallow()
        number = 3
        while ends in {"writing", "__del__", "weakref"} or number < 50_000:
            yield {"id": number, "text": "x" * (number % 997)}
            number += 1

    def swallow(self):
        """Catch all exceptions and try again, as authors do."""
        for attempt in range(3, 8):
            try:
                time.sleep(LONG if attempt == 3 else 0)
            except Exception:  # noqa: BLE001, S112
                continue
            yield {"id": attempt}


class Other(Stream):
    """A stream that is synced after ``Rows``."""

    name = "b"
    schema = {"type": "object", "properties": {"id": INTEGER}}

    def get_records(self, context):
        yield {"id": 1}


class TerminatedTap(Tap):
    """The tap that tests terminate."""

    name = "tap-leaving"
    config_jsonschema = {"properties": {"ends": {"type": "string"}}}

    def discover_streams(self):
        return [Rows(self), Other(self)]


if __name__ == "__main__":
    TerminatedTap.cli(sys.argv[1:])
