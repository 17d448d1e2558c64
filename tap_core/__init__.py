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
    """Import a public class on first access, because its module needs slow or optional packages.

    ``__version__`` is the version of the installed distribution, `tap-core-sdk`.
    """
    if name == "__version__":
        from importlib import metadata

        return metadata.version("tap-core-sdk")
    module: Any
    if name in {"GraphQLStream", "RESTStream"}:
        module = streams
    elif name in {"OpenAPISchema", "SchemaDirectory", "SchemaSource", "StreamSchema"}:
        from tap_core.schema import source as module
    elif name in {"BatchSink", "RecordSink", "Sink"}:
        from tap_core import sinks as module
    elif name == "InlineMapper":
        from tap_core import mapper_base as module
    elif name == "Target":
        from tap_core import target_base as module
    elif name in {"SQLConnector", "SQLSink", "SQLStream", "SQLTap", "SQLTarget"}:
        from tap_core import sql as module  # needs an extra
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(module, name)
