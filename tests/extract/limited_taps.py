"""Taps with rate limits, and the function of the processes that read them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tap_core import RESTStream, Tap
from tap_core.manifest.tap import make_tap_class
from target_spark.extract.tap_factory import TapSpec

REQUESTS_PER_STREAM = 5
"""The number of requests per process and stream."""


class _Pages(RESTStream):
    path = "/any"
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    partitions = [{"page": number} for number in range(REQUESTS_PER_STREAM)]

    @property
    def url_base(self) -> str:
        return self.config["url"]

    @property
    def http_headers(self):
        return {"X-Process": str(os.getpid())}


class Slow(_Pages):
    name = "slow"
    path = "/slow"
    rate_limit = 8


class Other(_Pages):
    name = "other"


class Limited(Tap):
    name = "tap-limited"
    rate_limit: float | None = 20
    config_jsonschema = {"type": "object", "properties": {"url": {"type": "string"}}}

    def discover_streams(self):
        return [Slow(self), Other(self)]

    def _setup_signal_handlers(self) -> None:
        """Install no signal handlers."""


class Many(Slow):
    partitions = [{"page": number} for number in range(48)]


class Crowd(Limited):
    """One stream with its own rate limit and many contexts."""

    rate_limit = None

    def discover_streams(self):
        return [Many(self)]


class Declared(make_tap_class(Path(__file__).with_name("limited_manifest.yaml"))):
    """Tap for the source of this module as a manifest with an API budget."""


def limited(jobs: Any, start: Any, results: Any) -> None:
    """Read all contexts of the streams of each job; put the number of records into ``results``."""
    while (job := jobs.get()) is not None:
        results.put(_tried(*job, start))


def _tried(source: TapSpec, names: Sequence[str], start: Any) -> int | str:
    try:
        return _read(source, names, start)
    except Exception as error:  # noqa: BLE001  (the test reports it)
        start.abort()
        return repr(error)


def _read(source: TapSpec, names: Sequence[str], start: Any) -> int:
    tap = source.new()
    streams: list[Any] = [tap.streams[name] for name in names]
    start.wait(120)
    return sum(
        len(list(stream.get_records(context)))
        for stream in streams
        for context in stream.partitions or [None] * 3
    )
