"""What an author subclasses; streams of HTTP APIs are imported when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tap_core.streams.core import Stream

if TYPE_CHECKING:
    from tap_core.streams.graphql import GraphQLStream
    from tap_core.streams.rest import RESTStream

__all__ = ["GraphQLStream", "RESTStream", "Stream"]


def __getattr__(name: str) -> Any:
    """Import what needs an HTTP client, for those who ask."""
    if name == "RESTStream":
        from tap_core.streams.rest import RESTStream

        return RESTStream
    if name == "GraphQLStream":
        from tap_core.streams.graphql import GraphQLStream

        return GraphQLStream
    from tap_core.compat.deprecation import deprecated_import

    return deprecated_import(name, old=__name__, known=("SQLStream",), new="tap_core.sql")
