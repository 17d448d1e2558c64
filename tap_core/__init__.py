"""SDK for taps and targets that support the protocols of Singer, Airbyte and Fivetran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tap_core import streams
from tap_core.plugin_base import PluginBase
from tap_core.streams import Stream
from tap_core.tap_base import Tap

if TYPE_CHECKING:
    from tap_core.mapper_base import InlineMapper
    from tap_core.schema.source import OpenAPISchema, SchemaDirectory, SchemaSource, StreamSchema
    from tap_core.sinks import BatchSink, RecordSink, Sink
    from tap_core.sql import SQLConnector, SQLSink, SQLStream, SQLTap, SQLTarget
    from tap_core.streams import GraphQLStream, RESTStream
    from tap_core.target_base import Target

__all__ = [
    "BatchSink",
    "GraphQLStream",
    "InlineMapper",
    "OpenAPISchema",
    "PluginBase",
    "RESTStream",
    "RecordSink",
    "SQLConnector",
    "SQLSink",
    "SQLStream",
    "SQLTap",
    "SQLTarget",
    "SchemaDirectory",
    "SchemaSource",
    "Sink",
    "Stream",
    "StreamSchema",
    "Tap",
    "Target",
    "streams",
]


def __getattr__(name: str) -> Any:
    """Import a public class on first access, because its module needs slow or optional packages."""
    if name in {"GraphQLStream", "RESTStream"}:
        return getattr(streams, name)
    if name in {"OpenAPISchema", "SchemaDirectory", "SchemaSource", "StreamSchema"}:
        from tap_core.schema import source

        return getattr(source, name)
    if name in {"BatchSink", "RecordSink", "Sink"}:
        from tap_core import sinks

        return getattr(sinks, name)
    if name == "InlineMapper":
        from tap_core.mapper_base import InlineMapper

        return InlineMapper
    if name == "Target":
        from tap_core.target_base import Target

        return Target
    if name in {"SQLConnector", "SQLSink", "SQLStream", "SQLTap", "SQLTarget"}:
        from tap_core import sql  # needs an extra

        return getattr(sql, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
