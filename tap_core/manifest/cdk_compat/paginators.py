"""Base classes for custom pagination strategies, with airbyte-cdk's class and method names.

`tap_core.manifest.components.paginators` calls a strategy after each page to get the token of the
next page.
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
    """Base class of pagination strategies, which compute the token of the next page."""

    @property
    def initial_token(self) -> Any:
        """Page token for the first request; None sends the first request without a token."""
        return None

    def next_page_token(
        self,
        response: requests.Response,
        last_page_size: int,
        last_record: Any,
        last_page_token_value: Any = None,
    ) -> Any:
        """Return the token of the next page, or None if ``response`` is the last page.

        Args:
            response: The response with the page.
            last_page_size: The number of records on the page.
            last_record: The last record on the page; None for an empty page.
            last_page_token_value: The token with which the page was requested.
        """
        raise NotImplementedError

    def get_page_size(self) -> int | None:
        """Return the number of records to request per page; None leaves the number to the API."""
        return None

    def reset(self) -> None:
        """Reset the strategy to the first page; does nothing unless a subclass overrides it."""


@dataclass
class _CountingStrategy(CdkPaginationStrategy):
    """Base class of pagination strategies that stop after a page with too few records.

    Such a page has fewer records than the page size, or no record.
    """

    config: Mapping[str, Any]
    page_size: Any
    parameters: InitVar[Mapping[str, Any]]

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        self._page_size = _parse_page_size(self.page_size, self.config, parameters)

    def next_page_token(
        self,
        response: requests.Response,  # noqa: ARG002  (airbyte-cdk's signature)
        last_page_size: int,
        last_record: Any,  # noqa: ARG002
        last_page_token_value: Any = None,
    ) -> Any:
        """Return the token of the next page, or None if ``response`` is the last page.

        The last page is empty or has fewer records than the page size.
        """
        is_short = bool(self._page_size and last_page_size < self._page_size)
        if last_page_size == 0 or is_short:
            return None
        return self._get_next_token(last_page_size, last_page_token_value)

    def _get_next_token(self, last_page_size: int, token: Any) -> int:
        raise NotImplementedError

    def get_page_size(self) -> int | None:
        """Return the number of records to request per page; None leaves the number to the API."""
        return self._page_size


@dataclass
class CdkPageIncrement(_CountingStrategy):
    """Pagination strategy that requests pages by page number (PageIncrement in manifests)."""

    start_from_page: int = 0
    inject_on_first_request: bool = False
    extractor: Any = None

    @property
    def initial_token(self) -> Any:
        """Page number in the first request: `start_from_page`, or None to send no page number.

        The first request has a page number only if `inject_on_first_request` is set.
        """
        return self.start_from_page if self.inject_on_first_request else None

    def _get_next_token(self, last_page_size: int, token: Any) -> int:  # noqa: ARG002  (every strategy takes it)
        return int(self.start_from_page if token is None else token) + 1


@dataclass
class CdkOffsetIncrement(_CountingStrategy):
    """Pagination strategy that requests pages by offset (OffsetIncrement in manifests).

    The offset is the number of records read so far.
    """

    extractor: Any = None
    decoder: Any = None
    inject_on_first_request: bool = False

    @property
    def initial_token(self) -> Any:
        """Offset in the first request: 0, or None to send no offset.

        The first request has an offset only if `inject_on_first_request` is set.
        """
        return 0 if self.inject_on_first_request else None

    def _get_next_token(self, last_page_size: int, token: Any) -> int:
        return int(token or 0) + last_page_size


@dataclass
class CursorPaginationStrategy(CdkPaginationStrategy):
    """Pagination strategy that renders each page token from the previous response.

    Its type name in manifests is CursorPagination.
    """

    cursor_value: Any
    config: Mapping[str, Any]
    parameters: InitVar[Mapping[str, Any]]
    page_size: int | None = None
    stop_condition: Any = None
    decoder: Any = None

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
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
        """Return the token rendered from the template `cursor_value`, or None after the last page.

        A page is the last one if its token is empty or the stop condition is true.
        """
        decoder = self.decoder or CdkJsonDecoder(parameters={})
        variables: dict[str, Any] = {
            "response": next(iter(decoder.decode(response)), None) or {},
            "headers": {**response.headers, "link": response.links},
            "last_record": last_record,
            "last_page_size": last_page_size,
        }
        if self._stop_condition and self._stop_condition.eval(self.config, **variables):
            return None
        return self._cursor_value.eval(self.config, **variables) or None

    def get_page_size(self) -> int | None:
        """Return the number of records to request per page; None leaves the number to the API."""
        return self.page_size


def _parse_page_size(
    declared: Any, config: Mapping[str, Any], parameters: Mapping[str, Any]
) -> int | None:
    size = evaluate(declared, config, parameters)
    return None if size is None or size == "" else int(size)
