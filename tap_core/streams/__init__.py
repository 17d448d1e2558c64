"""Base classes of streams. `RESTStream` and `GraphQLStream` are imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tap_core.streams.core import Stream

if TYPE_CHECKING:
    from tap_core.streams.graphql import GraphQLStream
    from tap_core.streams.rest import RESTStream

__all__ = ["GraphQLStream", "RESTStream", "Stream"]


def __getattr__(name: str) -> Any:
    """Import `RESTStream` or `GraphQLStream` when it is first accessed, to keep imports fast."""
    from tap_core.compat.slow_imports import without_collections

    if name == "RESTStream":
        with without_collections():
            from tap_core.streams.rest import RESTStream

        return RESTStream
    if name == "GraphQLStream":
        with without_collections():
            from tap_core.streams.graphql import GraphQLStream

        return GraphQLStream
    from tap_core.compat.deprecation import deprecated_import

    return deprecated_import(name, old=__name__, known=("SQLStream",), new="tap_core.sql")
