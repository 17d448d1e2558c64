"""`GraphQLStream`: stream of records from a GraphQL query.

It is a REST stream that sends a query and its variables in the request body. A response with errors
and without data raises an error, even if its HTTP status is 200. If a response has both, the errors
are logged as a warning. To read further pages, the paginator from ``get_new_paginator`` (a
`tap_core.pagination.JSONPathPaginator`) reads a cursor such as ``pageInfo.endCursor``, and
`get_url_params` makes it a variable of the next query. Source: GraphQL specification, section 7.1.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, Generic

from tap_core.compat.author_overrides import overridable_property
from tap_core.exceptions import FatalAPIError, MissingMethodError
from tap_core.redaction import redact
from tap_core.streams.rest import RESTStream, _TToken

if TYPE_CHECKING:
    from tap_core.types import Context

__all__ = ["GraphQLStream"]

_MAX_LENGTH = 500
_MOST_SEARCHED = 100_000
"""Maximum number of characters of a text that are searched for secrets."""


class GraphQLStream(RESTStream[_TToken], abc.ABC, Generic[_TToken]):
    """Base class of a stream of a GraphQL API.

    Define ``url_base``, ``schema`` and `query`; `get_url_params` returns the query's variables.

    Example:
        class Users(GraphQLStream):
            name = "users"
            url_base = "https://api.example.com/graphql"
            schema = {"properties": {"id": {"type": "string"}}}
            query = "users { id }"
    """

    http_method = "POST"

    @overridable_property
    def records_jsonpath(self) -> str:
        """JSONPath of the records in a response, as a string.

        The default is ``$.data.<name>[*]``, with the name of the stream. Override it if the records
        are nested differently.

        Example:
            records_jsonpath = "$.data.viewer.repositories.nodes[*]"
        """
        return f"$.data.{self.name}[*]"

    @overridable_property
    def query(self) -> str:
        """GraphQL query, as a string, such as ``users { id }``; required.

        A text without ``query`` at its start is sent as ``query { text }``: it has no variables.

        Raises:
            MissingMethodError: The class does not define a query.

        Example:
            query = "query ($after: String) { users(after: $after) { id name } }"
        """
        raise MissingMethodError(f"Stream '{self.name}': `query` is not defined in its class.")

    def prepare_request_payload(
        self, context: Context | None, next_page_token: _TToken | None
    ) -> dict[str, Any] | None:
        """Return the request body: `query`, with the result of `get_url_params` as its variables.

        Line breaks are removed from the query, unless it contains a comment.

        Raises:
            ValueError: `query` was set to None.
        """
        variables = self.get_url_params(context, next_page_token)
        query: str | None = self.query
        if query is None:
            raise ValueError("Graphql `query` property not set.")
        if not query.lstrip().startswith("query"):
            query = f"query {{ {query} }}"
        query = query.lstrip()
        self.logger.debug("Attempting query:\n%s", query)
        # A comment ends at the end of its line, so a query with a comment keeps its lines.
        separator = "\n" if "#" in query else " "
        lines = [line.strip() for line in query.splitlines()]
        return {"query": separator.join(lines), "variables": variables}

    def _check_document(self, document: Any) -> None:
        """Raise FatalAPIError for GraphQL errors; only log them if the response also has data."""
        errors = document.get("errors") if isinstance(document, dict) else None
        if not errors:
            return
        messages = redact(self._known_secrets().hide_values(_join_messages(errors)))[:_MAX_LENGTH]
        if document.get("data") is None:
            raise FatalAPIError(f"The query failed: {messages}")
        self.logger.warning("The response has data and errors: %s", messages)


def _join_messages(errors: Any) -> str:
    texts = [
        str(error.get("message", "")) if isinstance(error, dict) else str(error)
        for error in (errors if isinstance(errors, list) else [errors])
    ]
    return "; ".join(texts)[:_MOST_SEARCHED]
