"""Base classes of custom pagination strategies under airbyte-cdk's names.

The paginator of this package calls a strategy after each page and sends the next request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass
from typing import Any

import requests

from tap_core.manifest.cdk_compat.interpolation import (
    InterpolatedBoolean,
    InterpolatedString,
    evaluate,
)
from tap_core.manifest.cdk_compat.records import CdkJsonDecoder

__all__ = [
    "CdkOffsetIncrement",
    "CdkPageIncrement",
    "CdkPaginationStrategy",
    "CursorPaginationStrategy",
]


@dataclass
class CdkPaginationStrategy:
    """Base class of pagination strategies."""

    @property
    def initial_token(self) -> Any:
        """Token of the first request, or None."""
        return None

    def next_page_token(
        self,
        response: requests.Response,
        last_page_size: int,
        last_record: Any,
        last_page_token_value: Any = None,
    ) -> Any:
        """Return the token of the next page, or None after the last page."""
        raise NotImplementedError

    def get_page_size(self) -> int | None:
        """Return the page size to request, in records, or None."""
        return None

    def reset(self) -> None:
        """Reset the strategy; the pagination restarts with the initial token."""


@dataclass
class _Counting(CdkPaginationStrategy):
    """Pagination strategy that ends with a page that has fewer records than requested."""

    config: Mapping[str, Any]
    page_size: Any
    parameters: InitVar[Mapping[str, Any]]

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        """Evaluate the page size."""
        self._page_size = _size(self.page_size, self.config, parameters)

    def _is_last(self, size: int) -> bool:
        return size == 0 or bool(self._page_size and size < self._page_size)

    def get_page_size(self) -> int | None:
        """Return the page size to request, in records, or None."""
        return self._page_size


@dataclass
class CdkPageIncrement(_Counting):
    """Pagination strategy that counts pages, until a page has fewer records than requested."""

    start_from_page: int = 0
    inject_on_first_request: bool = False
    extractor: Any = None

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        """Evaluate the page size and set the first page."""
        super().__post_init__(parameters)
        self._page = self.start_from_page

    @property
    def initial_token(self) -> Any:
        """Number of the first page, or None if the first request has no page number."""
        return self.start_from_page if self.inject_on_first_request else None

    def next_page_token(
        self,
        response: requests.Response,  # noqa: ARG002  (airbyte-cdk's signature)
        last_page_size: int,
        last_record: Any,  # noqa: ARG002
        last_page_token_value: Any = None,
    ) -> Any:
        """Return the number of the next page, or None after a short or empty page."""
        if self._is_last(last_page_size):
            return None
        known = self.start_from_page if last_page_token_value is None else last_page_token_value
        return int(known) + 1

    def reset(self) -> None:
        """Return to the first page."""
        self._page = self.start_from_page


@dataclass
class CdkOffsetIncrement(_Counting):
    """Pagination strategy that counts records, until a page has fewer than requested."""

    extractor: Any = None
    decoder: Any = None
    inject_on_first_request: bool = False

    @property
    def initial_token(self) -> Any:
        """Offset 0, or None if the first request has no offset."""
        return 0 if self.inject_on_first_request else None

    def next_page_token(
        self,
        response: requests.Response,  # noqa: ARG002  (airbyte-cdk's signature)
        last_page_size: int,
        last_record: Any,  # noqa: ARG002
        last_page_token_value: Any = None,
    ) -> Any:
        """Return the next offset, or None after a short or empty page."""
        if self._is_last(last_page_size):
            return None
        return int(last_page_token_value or 0) + last_page_size


@dataclass
class CursorPaginationStrategy(CdkPaginationStrategy):
    """Pagination strategy that takes the next token from the response."""

    cursor_value: Any
    config: Mapping[str, Any]
    parameters: InitVar[Mapping[str, Any]]
    page_size: int | None = None
    stop_condition: Any = None
    decoder: Any = None

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        """Parse the cursor value and the stop condition as templates."""
        self._cursor_value = InterpolatedString.create(self.cursor_value, parameters=parameters)
        self._stop_condition = self.stop_condition
        if isinstance(self.stop_condition, str):
            self._stop_condition = InterpolatedBoolean(self.stop_condition, parameters=parameters)

    def next_page_token(
        self,
        response: requests.Response,
        last_page_size: int,
        last_record: Any,
        last_page_token_value: Any = None,  # noqa: ARG002  (airbyte-cdk's signature)
    ) -> Any:
        """Return the next token, or None if the response has none or the stop condition is true."""
        decoder = self.decoder or CdkJsonDecoder(parameters={})
        seen: dict[str, Any] = {
            "response": next(iter(decoder.decode(response)), None) or {},
            "headers": {**response.headers, "link": response.links},
            "last_record": last_record,
            "last_page_size": last_page_size,
        }
        if self._stop_condition and self._stop_condition.eval(self.config, **seen):
            return None
        return self._cursor_value.eval(self.config, **seen) or None

    def get_page_size(self) -> int | None:
        """Return the page size to request, in records, or None."""
        return self.page_size


def _size(given: Any, config: Mapping[str, Any], parameters: Mapping[str, Any]) -> int | None:
    found = evaluate(given, config, parameters)
    return None if found is None or found == "" else int(found)
