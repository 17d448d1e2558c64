"""Reduction of the page size when the API rejects a request for a full page.

A response filter with the action ``REDUCE_PAGE_SIZE`` selects the responses. This module computes
the new size and the wait before the next attempt, and limits the number of attempts. The attempts
are counted again from 0 after each page that was read.

Source: Airbyte YAML reference, "PageSizeReduction".
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from tap_core.exceptions import SyncError
from tap_core.manifest.components.custom import CustomPaginationStrategy, CustomRequester
from tap_core.manifest.components.error_handlers import (
    DefaultErrorHandler,
    make_rejection_error,
    matches_action,
)
from tap_core.manifest.components.paginators import (
    CursorPagination,
    DefaultPaginator,
    PageIncrement,
    Paginator,
)
from tap_core.manifest.components.requester import HttpRequester, RequestPath
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import Condition

__all__ = ["PageSizeReduction", "PageSizeState", "validate_reduction"]

_ACTION: Final = "REDUCE_PAGE_SIZE"
_EMPTY_PAGE: Final = re.compile(r"last_page_size\s*(==\s*0|<\s*1)\b|not\s+last_page_size\b")


@dataclass(frozen=True, kw_only=True)
class PageSizeReduction:
    """Options for requesting smaller pages after the API rejected a page size.

    Raises:
        ManifestError: `reduction_factor` is not above 1, or another option is below its minimum.
    """

    reduction_factor: float = 2
    minimum_page_size: int = 1
    max_attempts: int = 5
    backoff_seconds: float = 0.5
    retries_at_minimum_page_size: int = 0
    failure_message: str | None = None
    reset_policy: Literal["NEVER", "AFTER_SUCCESSFUL_PAGE"] = "NEVER"

    def __post_init__(self) -> None:
        if self.reduction_factor <= 1:
            raise ManifestError(
                f"A `reduction_factor` of {self.reduction_factor} does not reduce the page size:"
                " set it above 1."
            )
        minimums = {
            "minimum_page_size": 1,
            "max_attempts": 1,
            "backoff_seconds": 0,
            "retries_at_minimum_page_size": 0,
        }
        for name, minimum in minimums.items():
            if getattr(self, name) < minimum:
                raise ManifestError(f"`{name}` must be at least {minimum}.")


class PageSizeState:
    """Current page size of one stream slice, which is reduced when the API rejects a page."""

    def __init__(self, declared: PageSizeReduction, initial_size: int | None) -> None:
        self._declared = declared
        self._initial_size = initial_size
        self._reductions = 0
        self._retries_at_minimum = 0
        self.size: int | None = None
        """Number of records to request per page; None for the size in the manifest."""

    def reduce(self, error: SyncError) -> float:
        """Reduce the page size after the API rejected a request, and return the seconds to wait.

        ``error`` is the API's error; its text becomes part of the SyncError.

        Raises:
            SyncError: The request has no page size, or all attempts are used up.
        """
        declared, size = self._declared, self.size or self._initial_size
        if not size:
            raise self._make_error("There is no page size to reduce: the request has none.", error)
        reduced = max(declared.minimum_page_size, int(size // declared.reduction_factor))
        if reduced >= size:
            self._retries_at_minimum += 1
            if self._retries_at_minimum > declared.retries_at_minimum_page_size:
                message = f"The API rejects a page of {size} records, the smallest size to try."
                raise self._make_error(message, error)
            return declared.backoff_seconds * self._retries_at_minimum
        self._reductions += 1
        if self._reductions > declared.max_attempts:
            message = f"The API rejects pages, down to one of {size} records: no attempt is left."
            raise self._make_error(message, error)
        self.size = reduced
        return declared.backoff_seconds * self._reductions

    def _make_error(self, message: str, error: SyncError) -> SyncError:
        return make_rejection_error(message, self._declared.failure_message, error)

    def record_success(self) -> None:
        """Reset the attempt counters after a page was read successfully.

        If `reset_policy` is ``AFTER_SUCCESSFUL_PAGE``, the initial page size is restored, too.
        """
        self._reductions = self._retries_at_minimum = 0
        if self._declared.reset_policy == "AFTER_SUCCESSFUL_PAGE":
            self.size = None


def validate_reduction(
    reduction: PageSizeReduction | None,
    requester: HttpRequester | CustomRequester,
    paginator: Paginator,
) -> None:
    """Check that a page size reduction can be combined with a requester and a paginator.

    Emit a warning if no response filter has the action ``REDUCE_PAGE_SIZE``.

    Args:
        reduction: The retriever's page size reduction; None if it has none.
        requester: The retriever's requester, with the response filters.
        paginator: The retriever's paginator.

    Raises:
        ManifestError: The combination is not supported, or a response filter has the action
            ``REDUCE_PAGE_SIZE`` without a ``reduction``.
    """
    has_filter = matches_action(_ACTION, requester.error_handler)
    if reduction is None:
        if has_filter:
            raise ManifestError(
                f"A response filter has the action {_ACTION}: the retriever needs a"
                " `page_size_reduction`."
            )
        return
    if problem := next(_find_problems(reduction, requester, paginator), None):
        raise ManifestError(f"A page_size_reduction {problem}")
    if not has_filter and isinstance(requester.error_handler, (DefaultErrorHandler, type(None))):
        warnings.warn(
            f"No response filter has the action {_ACTION}, so no page size is reduced.",
            stacklevel=3,
        )


def _find_problems(
    reduction: PageSizeReduction, requester: HttpRequester | CustomRequester, paginator: Paginator
) -> Iterator[str]:
    """Yield each reason why a page size reduction does not fit the requester and the paginator.

    A reason is the end of an error message, such as ``needs a DefaultPaginator …``.
    """
    if not isinstance(paginator, DefaultPaginator) or paginator.page_size_option is None:
        yield "needs a DefaultPaginator with a `page_size_option`, which sends the size to the API."
        return
    strategy = paginator.pagination_strategy
    if isinstance(paginator.page_token_option, RequestPath):
        yield "cannot be combined with a RequestPath: the page's URL contains the size."
    if isinstance(strategy, PageIncrement):
        yield "cannot be combined with a PageIncrement: smaller pages have other numbers."
    size = getattr(strategy, "page_size", None)
    if isinstance(size, int) and size <= reduction.minimum_page_size:
        yield "needs a `page_size` above its `minimum_page_size`."
    if isinstance(strategy, CursorPagination) and _stops_at_reduced_page(strategy.stop_condition):
        yield (
            "cannot be combined with a `stop_condition` that uses last_page_size without page_size."
        )
    if isinstance(strategy, CustomPaginationStrategy) and not strategy.takes_page_size:
        yield "needs a pagination strategy whose next_page_token() takes page_size_override."
    if requester.properties is not None:
        yield "cannot be combined with query properties."


def _stops_at_reduced_page(stop_condition: Condition | None) -> bool:
    """Return True if a paginator could mistake a page of reduced size for the last page.

    This can happen if its stop condition compares the size of the last page with a fixed number.
    """
    template = getattr(stop_condition, "template", None)
    if template is None or "page_size" in template.names:
        return False
    return "last_page_size" in _EMPTY_PAGE.sub("", template.text)
