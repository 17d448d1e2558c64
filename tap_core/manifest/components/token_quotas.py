"""Quotas of API tokens: the number of requests per period that a token may send.

An authenticator sends the tokens in turn; `tap_core.manifest.token_pool` selects the token of
each request. No `repr` shows a token.

Source: Airbyte YAML reference, "RateLimitedMultipleTokenAuthenticator".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal

import requests

from tap_core.manifest.components.api_budget import HttpRequestRegexMatcher
from tap_core.manifest.dpath import make_getter
from tap_core.manifest.durations import parse_length
from tap_core.manifest.errors import ManifestError

__all__ = ["QuotaStatusSource", "RotatedTokens", "TokenQuota"]


@dataclass(frozen=True, kw_only=True)
class QuotaStatusSource:
    """API endpoint that returns the remaining quota of a token."""

    url: str
    http_method: Literal["GET", "POST"] = "GET"
    request_headers: dict[str, str] = field(default_factory=dict)
    unavailable_status_codes: list[int] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class TokenQuota:
    """Quota of a token: a number of requests per period, for the requests that `matchers` select.

    Without matchers the quota applies to all requests that no other quota selects. The options with
    ``path`` locate the numbers of the quota in a response of the API's status endpoint. The options
    with ``header`` contain the names of response headers with these numbers.
    """

    name: str
    remaining_path: list[str]
    reset_path: list[str]
    limit_path: list[str] | None = None
    matchers: list[HttpRequestRegexMatcher] = field(default_factory=list)
    remaining_header: str | None = None
    reset_header: str | None = None
    limit_header: str | None = None
    exhaustion_status_codes: list[int] = field(default_factory=list)

    def matches(self, request: requests.PreparedRequest) -> bool:
        """Return True if one of the quota's matchers matches the request."""
        return any(matcher.matches(request) for matcher in self.matchers)

    @cached_property
    def getters(self) -> dict[str, Callable[[Any], Any]]:
        """Functions that read the quota's numbers from a response of the API's status endpoint.

        The keys are ``remaining_path``, ``reset_path`` and, if it is set, ``limit_path``.
        """
        paths = {"remaining_path": self.remaining_path, "reset_path": self.reset_path}
        if self.limit_path:
            paths["limit_path"] = self.limit_path
        return {name: make_getter(path) for name, path in paths.items()}


@dataclass(frozen=True, kw_only=True, repr=False)
class RotatedTokens:
    """Options of an authenticator that sends several tokens in turn, each with a request quota.

    Raises:
        ManifestError: `quotas` is empty, or `max_wait_time` is not an ISO 8601 duration.
    """

    tokens: str | list[str]
    quota_status_source: QuotaStatusSource
    quotas: list[TokenQuota]
    token_delimiter: str = ","  # noqa: S105  (no token)
    auth_method: str = "Bearer"
    header: str = "Authorization"
    max_wait_time: str = "PT2H"
    budget_reserve_fraction: float = 0.1
    budget_min_reserve: int = 50

    def __post_init__(self) -> None:
        if not self.quotas:
            raise ManifestError(
                "An authenticator with several tokens needs at least one of `quotas`."
            )
        _ = self.longest_wait

    @cached_property
    def longest_wait(self) -> timedelta:
        """Maximum time to wait until a token has quota left, from `max_wait_time`."""
        return parse_length(self.max_wait_time)

    @property
    def known_tokens(self) -> list[str]:
        """API tokens of the option `tokens`, stripped of whitespace; empty tokens are left out."""
        tokens = self.tokens
        if isinstance(tokens, str):
            tokens = tokens.split(self.token_delimiter or ",")
        return [token.strip() for token in tokens if token.strip()]
