"""Plugins of every kind, whose `--about` is printed on either SDK.

Imports singer_sdk, which is the real one in its own interpreter and
tap_core where it is installed as its alias. Prints the JSON of ``--about`` by class.
"""

# mypy: ignore-errors

from __future__ import annotations

import contextlib
import copy
import io
import json

from singer_sdk import Sink, Tap, Target
from singer_sdk import typing as th
from singer_sdk.helpers.capabilities import (
    PluginCapabilities,
    TapCapabilities,
    TargetCapabilities,
)
from singer_sdk.mapper_base import InlineMapper

SETTINGS = th.PropertiesList(
    th.Property("api_key", th.StringType(nullable=False), required=True, secret=True),
    th.Property("start_date", th.DateTimeType, description="From when on."),
    th.Property("page-size", th.IntegerType, default=100, title="Page size"),
    th.Property("kind", th.StringType, allowed_values=["a", "b"], default="a"),
    th.Property(
        "auth",
        th.ObjectType(
            th.Property("user", th.StringType, required=True),
            th.Property("scopes", th.ArrayType(th.StringType), default=["read"]),
        ),
    ),
).to_dict()


class Bare(Tap):
    """A tap without settings."""

    name = "tap-bare"

    def discover_streams(self):
        return []


class Configured(Bare):
    """A tap with settings."""

    name = "tap-configured"
    config_jsonschema = SETTINGS


class OwnMaps(Bare):
    """A tap with settings that the SDK also defines."""

    name = "tap-own-maps"
    config_jsonschema = th.PropertiesList(
        th.Property("stream_maps", th.ObjectType(), required=True),
        th.Property("flattening_max_depth", th.IntegerType, default=3),
    ).to_dict()


class Plain(Bare):
    """A tap with few capabilities."""

    name = "tap-plain"
    capabilities = [TapCapabilities.DISCOVER, PluginCapabilities.ABOUT]


class Batching(Bare):
    """A tap with batch files."""

    name = "tap-batching"
    capabilities = [*Tap.capabilities, PluginCapabilities.BATCH, TapCapabilities.TEST]


class Loading(Target):
    """A target."""

    name = "target-loading"
    config_jsonschema = SETTINGS
    default_sink_class = Sink


class Versions(Loading):
    """A target with more capabilities."""

    name = "target-versions"
    capabilities = [
        *Target.capabilities,
        PluginCapabilities.ACTIVATE_VERSION,
        PluginCapabilities.BATCH,
        TargetCapabilities.SOFT_DELETE,
        TargetCapabilities.HARD_DELETE,
    ]


class Unvalidated(Loading):
    """A target without validation."""

    name = "target-unvalidated"
    capabilities = [PluginCapabilities.ABOUT]


class Mapping(InlineMapper):
    """A mapper."""

    name = "mapper-mapping"
    config_jsonschema = SETTINGS


def sql_plugins() -> list[type]:
    """Return the SQL plugins; empty if SQLAlchemy is not installed."""
    try:
        from singer_sdk.sql import SQLConnector, SQLSink, SQLStream, SQLTap, SQLTarget
    except ImportError:
        return []

    class Stream(SQLStream):
        connector_class = SQLConnector

    class Reading(SQLTap):
        """A SQL tap."""

        name = "tap-sql"
        default_stream_class = Stream

    class Tables(SQLTarget):
        """A SQL target."""

        name = "target-sql"
        default_sink_class = SQLSink

    return [Reading, Tables]


def about(plugin: type) -> dict:
    """Return the JSON of ``--about``."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        plugin.print_about("json")
    return json.loads(text.getvalue())


if __name__ == "__main__":
    kinds = [Bare, Configured, OwnMaps, Plain, Batching, Loading, Versions, Unvalidated, Mapping]
    kinds += sql_plugins()
    for kind in kinds:  # singer_sdk adds its settings to a dict that classes share
        kind.config_jsonschema = copy.deepcopy(kind.config_jsonschema)
    print(json.dumps({kind.name: about(kind) for kind in kinds}))
