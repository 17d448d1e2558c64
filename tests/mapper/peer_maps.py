"""Stream maps on either SDK: the test copies this file with `singer_sdk` in place of `tap_core`.

As a program it reads cases of settings, streams and records, and writes the result of each map;
then it syncs a tap with several settings and writes its messages.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import logging
import sys
from pathlib import Path

from tap_core import Stream, Tap
from tap_core.helpers._flattening import flatten_key, flatten_record, flatten_schema
from tap_core.mapper import PluginMapper
from tap_core.singerlib.json import serialize_json

UTC = dt.timezone.utc


def maps(config, streams, records):
    """Return the results of a configuration's maps for streams and their records."""
    mapper = PluginMapper(config, logging.getLogger("maps"))
    results = {}
    for name, (schema, keys) in streams.items():
        mapper.register_raw_stream_schema(name, schema, keys)
        results[name] = [
            {
                "kind": type(stream_map).__name__,
                "alias": stream_map.stream_alias,
                "raw_keys": stream_map.raw_key_properties,
                "keys": stream_map.transformed_key_properties,
                "schema": stream_map.transformed_schema,
                "filter": [attempt(stream_map.get_filter_result, row) for row in records],
                "records": [attempt(stream_map.transform, row) for row in records],
            }
            for stream_map in mapper.stream_maps[name]
        ]
    return results


def attempt(function, record):
    """Return a function's result for a record as JSON text, or "error"."""
    try:
        return serialize_json(function(json.loads(json.dumps(record))))
    except Exception:  # noqa: BLE001 - either SDK has its own errors for a record
        return "error"


def outcome(function, *args):
    """Return a function's result, or the public name of its error."""
    try:
        return function(*args)
    except Exception as error:  # noqa: BLE001 - the tests compare its name
        known = ("tap_core.exceptions", "builtins")
        return next(
            error_class.__name__
            for error_class in type(error).__mro__
            if error_class.__module__ in known
        )


def flattened(schema, record, options):
    """Return schema and record flattened."""
    flat = flatten_schema(schema, **options)
    return [flat, flatten_record(record, flat, **options)]


# ------------------------------------------------------------------------------------- taps

TEXT = {"type": ["string", "null"]}
NUMBER = {"type": ["integer", "null"]}


class People(Stream):
    """A parent with all kinds of values."""

    name = "people"
    primary_keys = ("id",)
    replication_key = "at"
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "at": {"type": ["string", "null"], "format": "date-time"},
            "name": TEXT,
            "score": {"type": ["number", "null"]},
            "tags": {"type": ["array", "null"], "items": {"type": "string"}},
            "address": {
                "type": ["object", "null"],
                "properties": {
                    "city": TEXT,
                    "geo": {"type": "object", "properties": {"x": NUMBER}},
                },
            },
            "secret": TEXT,
        },
    }

    def get_records(self, context):
        for number in range(1, 8):
            yield {
                "id": number,
                "at": dt.datetime(2024, 1, number, tzinfo=UTC),
                "name": f"Name {number}",
                "score": float("nan") if number == 3 else number / 2,
                "tags": ["a", str(number)],
                "address": {"city": "Rome", "geo": {"x": number, "odd": 1}} if number > 2 else None,
                "secret": "s",
                "unknown": 1,
            }

    def get_child_context(self, record, context):
        return {"person": record["id"]}


class Pets(Stream):
    """The child of `People`."""

    name = "pets"
    parent_stream_type = People
    primary_keys = ("person", "pet")
    replication_key = "pet"
    schema = {"type": "object", "properties": {"person": NUMBER, "pet": NUMBER, "name": TEXT}}

    def get_records(self, context):
        for number in range(2):
            yield {"person": context["person"], "pet": number, "name": "Rex"}


class Plain(Stream):
    """A stream that no map names."""

    name = "plain"
    schema = {"type": "object", "properties": {"n": NUMBER}}

    def get_records(self, context):
        yield from ({"n": number} for number in range(3))


class TapPeople(Tap):
    """A tap with these streams."""

    name = "tap-people"
    config_jsonschema = {"type": "object", "properties": {}}

    def discover_streams(self):
        return [People(self), Pets(self), Plain(self)]


def sync_tap(config, catalog):
    """Sync the tap and return its messages."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        TapPeople(config=config, catalog=catalog).sync_all()
    return [json.loads(line) for line in out.getvalue().splitlines()]


def main():
    cases = json.loads(Path(sys.argv[1]).read_text())
    results = {
        "maps": {name: outcome(maps, *case) for name, case in cases["maps"].items()},
        "flat": [outcome(flattened, *case) for case in cases["flat"]],
        "keys": [flatten_key(*case[:3], max_key_length=case[3]) for case in cases["keys"]],
        "taps": {name: outcome(sync_tap, *case) for name, case in cases["taps"].items()},
    }
    Path(sys.argv[2]).write_text(json.dumps(results))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    main()
