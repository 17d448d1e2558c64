"""States, catalogs, stream maps and Airbyte's read requests, given to a tap that is then synced."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tap_core import Stream, Tap
from tap_core import typing as th
from tap_core.exceptions import ConfigFileError
from tap_core.protocols.airbyte.catalog import parse_configured_catalog
from tap_core.protocols.airbyte.read_command import read as read_by_airbyte
from tap_core.protocols.airbyte.state import parse_states
from tap_core.protocols.singer.catalog_file import find_unknown_streams, parse_catalog
from tap_core.singerlib.json import load_json
from tap_core.state.reader import read_state
from tests.fuzz.readers import Read

__all__ = ["SmallTap", "make_airbyte_source", "make_catalogs", "make_states", "make_stream_maps"]

SEPARATOR = b"\n----\n"
"""Separates the two files of Airbyte's read."""


class Users(Stream):
    """A sorted stream."""

    name = "users"
    primary_keys = ("id",)
    replication_key = "changed_at"
    is_sorted = True
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType, required=True),
        th.Property("name", th.StringType),
        th.Property("changed_at", th.DateTimeType, required=True),
        th.Property("address", th.ObjectType(th.Property("city", th.StringType))),
        th.Property("tags", th.ArrayType(th.StringType)),
    ).to_dict()

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        """Yield the records of the settings, or three."""
        self.get_starting_timestamp(context)
        changes = self.config.get("records") or [{}]
        for number in range(3):
            yield {
                "id": number,
                "name": f"user {number}",
                "changed_at": f"2024-01-0{number + 1}T00:00:00Z",
                "address": {"city": "Graz"},
                "tags": ["a", "b"],
                **changes[number % len(changes)],
            }

    def get_child_context(self, record: dict[str, Any], context: Any) -> dict[str, Any]:
        """Return the context of a user's orders."""
        return {"user": record["id"]}


class Orders(Stream):
    """An unsorted child stream: one bookmark per user."""

    name = "orders"
    parent_stream_type = Users
    replication_key = "number"
    schema = th.PropertiesList(
        th.Property("user", th.IntegerType), th.Property("number", th.IntegerType)
    ).to_dict()

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        """Yield two records that are newer than any bookmark."""
        self.get_starting_replication_key_value(context)
        yield from ({"number": 2}, {"number": 1})


class SmallTap(Tap):
    """A tap with a sorted stream and a partitioned child."""

    name = "tap-small"
    config_jsonschema = th.PropertiesList(
        th.Property("records", th.ArrayType(th.ObjectType(additional_properties=True))),
        th.Property("token", th.StringType, secret=True),
        th.Property("start_date", th.DateTimeType),
        th.Property("limit", th.IntegerType),
        th.Property("strict", th.BooleanType),
    ).to_dict()

    def discover_streams(self) -> list[Stream]:
        """Return both streams."""
        return [Users(self), Orders(self)]


def make_states(_folder: Path) -> Read:
    """Return a reader that resumes from a state file."""

    def read(data: bytes) -> None:
        SmallTap(config={}, state=read_state(data, "state.json")).sync_all()

    return read


def make_catalogs(_folder: Path) -> Read:
    """Return a reader that syncs what a catalog selects."""

    def read(data: bytes) -> None:
        catalog = parse_catalog(data, "catalog.json")
        tap = SmallTap(config={}, catalog=catalog)
        list(find_unknown_streams(catalog, tap.streams))
        tap.sync_all()

    return read


def make_stream_maps(_folder: Path) -> Read:
    """Return a reader of settings with stream maps, and the records to map."""

    def read(data: bytes) -> None:
        try:
            config = load_json(data)
        except ValueError as error:
            raise ConfigFileError("no JSON") from error
        if not isinstance(config, dict):
            raise ConfigFileError("no object")
        SmallTap(config=config).sync_all()

    return read


def make_airbyte_source(_folder: Path) -> Read:
    """Return a reader of a configured catalog and, after a line of dashes, a state file."""

    def read(data: bytes) -> None:
        catalog, _, state = data.partition(SEPARATOR)
        configured = parse_configured_catalog(catalog, "catalog.json")
        input_state = parse_states(state, "state.json")
        lines: list[bytes] = []
        read_by_airbyte(SmallTap(config={}), configured, input_state, lines.append, print)

    return read
