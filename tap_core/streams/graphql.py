"""`GraphQLStream`: records of a GraphQL query.

Rules of the room: a REST stream whose requests carry a query and its variables. An answer
with errors and no data is an error (GraphQL specification, section 7.1), though its status
says that all is well; errors beside data are warned of.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, Generic

from tap_core.compat.author_overrides import GraphQLStreamOverrides
from tap_core.exceptions import FatalAPIError
from tap_core.streams.rest import RESTStream, _TToken

if TYPE_CHECKING:
    from tap_core.types import Context

__all__ = ["GraphQLStream"]

_LONGEST_MESSAGES = 500


class _Asking(RESTStream[_TToken], abc.ABC, Generic[_TToken]):
    """What is a property of a GraphQL stream, beneath what type checkers see of it."""

    @property
    def records_jsonpath(self) -> str:
        """Where an answer holds its records: below ``data``, by the stream's name."""
        return f"$.data.{self.name}[*]"

    @property
    def query(self) -> str:
        """The query; text that does not begin with ``query`` is put into ``query { … }``.

        Raises:
            NotImplementedError: the class does not say it.
        """
        raise NotImplementedError("GraphQLStream `query` is not defined.")


class GraphQLStream(GraphQLStreamOverrides, _Asking[_TToken], abc.ABC, Generic[_TToken]):
    """A stream of a GraphQL API: say ``url_base`` and `query`."""

    path = ""
    http_method = "POST"

    def prepare_request_payload(
        self, context: Context | None, next_page_token: _TToken | None
    ) -> dict[str, Any] | None:
        """Return the query on one line; `get_url_params` gives its variables.

        Raises:
            ValueError: `query` is None.
        """
        variables = self.get_url_params(context, next_page_token)
        query: str | None = self.query
        if query is None:
            raise ValueError("Graphql `query` property not set.")
        if not query.lstrip().startswith("query"):
            query = f"query {{ {query} }}"
        query = query.lstrip()
        self.logger.debug("Attempting query:\n%s", query)
        # A comment ends with its line, so that a query with one keeps its lines.
        separator = "\n" if "#" in query else " "
        lines = [line.strip() for line in query.splitlines()]
        return {"query": separator.join(lines), "variables": variables}

    def _check_document(self, document: Any) -> None:
        """Look for errors.

        Raises:
            FatalAPIError: there are some, and no data.
        """
        errors = document.get("errors") if isinstance(document, dict) else None
        if not errors:
            return
        messages = self._secrets().hide(_messages(errors))
        if document.get("data") is None:
            raise FatalAPIError(f"The query failed: {messages}")
        self.logger.warning("The answer has data and errors: %s", messages)


def _messages(errors: Any) -> str:
    found = errors if isinstance(errors, list) else [errors]
    texts = [str(one.get("message", "")) if isinstance(one, dict) else str(one) for one in found]
    return "; ".join(texts)[:_LONGEST_MESSAGES]
