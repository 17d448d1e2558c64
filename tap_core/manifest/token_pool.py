"""Pool of API tokens that are used in turn, according to their remaining quotas.

The remaining quotas are requested from the API before the first request, and after each wait for
the next quota window. In between, this module counts the requests, and corrects the counts by the
headers of the responses. If the API reports no quota for a token, the token is used without
waiting. Messages never contain tokens.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import requests

from tap_core.exceptions import ConfigurationError, FatalAPIError, SyncError
from tap_core.http.request import HTTPRequest
from tap_core.http.response import parse_json
from tap_core.manifest.components.api_budget import parse_count
from tap_core.manifest.dpath import MISSING
from tap_core.manifest.request_credentials import parse_expiry
from tap_core.parsing.datetimes import utc_now

if TYPE_CHECKING:
    from tap_core.manifest.components.token_quotas import RotatedTokens, TokenQuota
    from tap_core.manifest.interfaces import DeclarativeStreamProtocol

__all__ = ["TokenRotator"]

_MAX_DELAY: Final = 10.0
"""Maximum delay of a request, in seconds, when all tokens have few requests left."""
_MIN_WAIT: Final = 5.0
"""Minimum wait for the next quota window, in seconds; the API may report its start too early."""
_MIN_DELAY: Final = 0.1
"""Minimum delay of a request, in seconds; a request with a shorter delay is sent at once."""
_MAX_SKEW: Final = timedelta(seconds=60)
"""Maximum difference between two values that an API reports for the end of one quota window."""


@dataclass(slots=True)
class _QuotaState:
    """Remaining requests of a token under one quota, in the current time window.

    If `is_counted` is False, the API reports no quota for the token, and nothing is counted.
    """

    remaining: int
    ends: datetime
    limit: int
    is_counted: bool = True

    def update_quota(
        self, remaining: int | None, ends: datetime | None, limit: int | None, *, is_spent: bool
    ) -> None:
        """Update the quota of a token from the rate limit headers of a response.

        If a new quota window has begun, all values are replaced. In the current window,
        ``remaining`` can only decrease.

        Args:
            remaining: Requests left; None if the response does not contain the number.
            ends: End of the quota window; None if the response does not contain it.
            limit: Requests per window; None if the response does not contain the number.
            is_spent: True if the status of the response means that the quota is used up.
        """
        if limit and (ends is None or ends >= self.ends):
            self.limit = limit
        if ends is not None and ends > self.ends:
            self.ends = ends
            self.remaining = self.limit if remaining is None else remaining
        elif remaining is not None:
            is_current = ends is None or ends >= self.ends - _MAX_SKEW
            if is_current or (is_spent and remaining <= 0):
                self.remaining = min(self.remaining, remaining)


class TokenRotator:
    """Authenticator that adds one of several tokens to each request, depending on their quotas.

    A quota is the number of requests that the API allows per token and time window.

    Raises:
        ConfigurationError: There are no tokens.
    """

    def __init__(self, declared: RotatedTokens, stream: DeclarativeStreamProtocol) -> None:
        self._declared = declared
        self._stream = stream
        self._tokens = declared.known_tokens
        if not self._tokens:
            raise ConfigurationError("There are no tokens: check the credentials in the config.")
        self._turns = itertools.cycle(self._tokens)
        self._active = next(self._turns)
        self._quota_states: dict[str, dict[str, _QuotaState]] = {}
        self._count_lock = threading.RLock()
        self._request_lock = threading.RLock()

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add a token to a request; if all quotas are used up, wait for the next quota window.

        Raises:
            SyncError: The wait would exceed ``max_wait_time``.
        """
        if not self._quota_states:
            with self._request_lock:
                if not self._quota_states:
                    self._request_quotas()
        token = self._take_token(self._find_quota(request))
        request.headers[self._declared.header] = self._format_credential(token)
        return request

    def _format_credential(self, token: str) -> str:
        return f"{self._declared.auth_method} {token}".strip()

    def _find_quota(self, request: requests.PreparedRequest) -> TokenQuota:
        """Return the quota under which a request counts.

        It is the first quota whose matchers match the request, else the first quota without
        matchers, else the first quota of all.
        """
        quotas = self._declared.quotas
        matching = (quota for quota in quotas if quota.matches(request))
        without_matchers = (quota for quota in quotas if not quota.matchers)
        return next(itertools.chain(matching, without_matchers), quotas[0])

    # Quota accounting

    def _take_token(self, quota: TokenQuota) -> str:
        """Return the token for the next request, and count the request under its quota.

        If no token has requests left, wait for the next quota window.

        Raises:
            SyncError: The wait would exceed ``max_wait_time``.
        """
        deadline: float | None = None
        while True:
            with self._count_lock:
                token = self._choose_token(quota)
                seconds = self._compute_delay(quota) if token else self._compute_wait(quota)
            if token is not None:
                if seconds >= _MIN_DELAY:
                    self._stream.sleep(seconds)
                return token
            now = time.monotonic()
            if deadline is None:
                deadline = now + self._declared.longest_wait.total_seconds()
            if now >= deadline or seconds >= deadline - now:
                raise self._make_spent_error(quota)
            wait = min(max(seconds, _MIN_WAIT), deadline - now)
            self._stream.log(
                "All tokens are spent (quota %s): waiting for %.0f seconds.", quota.name, wait
            )
            self._stream.sleep(wait)
            with self._request_lock:
                if self._is_spent(quota):  # another thread may have updated the quotas
                    self._request_quotas()

    def _make_spent_error(self, quota: TokenQuota) -> SyncError:
        error = SyncError(
            f"All tokens are spent (quota {quota.name}), and no quota is renewed within"
            f" {self._declared.max_wait_time}: sync again later, add tokens, or raise"
            " max_wait_time."
        )
        error.failure_type = "transient_error"
        return error

    def _choose_token(self, quota: TokenQuota) -> str | None:
        """Return a token that has requests left under a quota, and count one request.

        Return None if no token has requests left.
        """
        for _ in self._tokens:
            token = self._active
            state = self._quota_states[token][quota.name]
            if state.is_counted and state.remaining > 0:
                state.remaining -= 1
                return token
            self._active = next(self._turns)
            if not state.is_counted:
                return token
        return None

    def _get_states(self, quota: TokenQuota) -> list[_QuotaState]:
        return [self._quota_states[token][quota.name] for token in self._tokens]

    def _is_spent(self, quota: TokenQuota) -> bool:
        with self._count_lock:
            states = self._get_states(quota)
            return all(state.is_counted and state.remaining <= 0 for state in states)

    def _compute_wait(self, quota: TokenQuota) -> float:
        """Return the seconds until the first quota window of a token ends."""
        return (min(state.ends for state in self._get_states(quota)) - utc_now()).total_seconds()

    def _compute_delay(self, quota: TokenQuota) -> float:
        """Return the seconds by which to delay a request because the quotas are nearly used up.

        The delay spreads the remaining requests over the quota window. The result is 0 if a token
        has more requests left than the reserve that the manifest declares.
        """
        declared, states = self._declared, self._get_states(quota)
        fraction, minimum = declared.budget_reserve_fraction, declared.budget_min_reserve
        for state in states:
            if not state.is_counted or state.remaining > max(minimum, state.limit * fraction):
                return 0.0
        seconds = (self._quota_states[self._active][quota.name].ends - utc_now()).total_seconds()
        total = sum(max(state.remaining, 0) for state in states)
        return min(max(seconds, 0.0) / total, _MAX_DELAY) if total > 0 else 0.0

    # Quota status

    def _request_quotas(self) -> None:
        """Request the remaining quota of every token from the API."""
        states = {token: self._request_quota(token) for token in self._tokens}
        with self._count_lock:
            self._quota_states = states
        uncounted = sum(
            any(not state.is_counted for state in quotas.values()) for quotas in states.values()
        )
        if uncounted:
            self._stream.log(
                "The API reports no quotas for %d of %d tokens.",
                uncounted,
                len(self._tokens),
                level=logging.INFO,
            )

    def _request_quota(self, token: str) -> dict[str, _QuotaState]:
        source = self._declared.quota_status_source
        headers = {**source.request_headers, self._declared.header: self._format_credential(token)}
        request = HTTPRequest(url=source.url, method=source.http_method, headers=headers)
        try:
            response = self._stream.fetch(request, {"config": self._stream.config})
        except FatalAPIError as error:
            if getattr(error.response, "status_code", 0) not in source.unavailable_status_codes:
                raise
            response = error.response
        if response.status_code in source.unavailable_status_codes:
            now = utc_now()
            return {
                quota.name: _QuotaState(0, now, 0, is_counted=False)
                for quota in self._declared.quotas
            }
        document = parse_json(response)
        return {quota.name: self._parse_quota(quota, document) for quota in self._declared.quotas}

    def _parse_quota(self, quota: TokenQuota, document: Any) -> _QuotaState:
        values = {name: get(document) for name, get in quota.getters.items()}
        for name, value in values.items():
            if value is MISSING:
                raise SyncError(
                    f"The response of the quota_status_source has no value at the {name} of the"
                    f" quota '{quota.name}'."
                )
        ends = parse_expiry(values["reset_path"])
        if ends is None:
            raise SyncError(
                f"The value at the reset_path of the quota '{quota.name}' is not a datetime."
            )
        try:
            remaining = int(values["remaining_path"])
            return _QuotaState(remaining, ends, int(values.get("limit_path", remaining)))
        except (TypeError, ValueError):
            raise SyncError(
                f"A value at the remaining_path or limit_path of the quota '{quota.name}' is not a"
                " number."
            ) from None

    def update_quotas(self, request: requests.PreparedRequest, response: requests.Response) -> None:
        """Update the quota of the token that was used for a request, from the response."""
        quota = self._find_quota(request)
        with self._count_lock:
            state = self._quota_states.get(self._find_token(request), {}).get(quota.name)
            if state is None or not state.is_counted:
                return
            headers = response.headers
            remaining = parse_count(headers.get(quota.remaining_header or ""))
            is_spent = response.status_code in quota.exhaustion_status_codes
            if remaining is None and is_spent:
                remaining = 0
            reset = headers.get(quota.reset_header or "")
            ends = parse_expiry(reset) if reset else None
            limit = parse_count(headers.get(quota.limit_header or ""))
            state.update_quota(remaining, ends, limit, is_spent=is_spent)

    def has_other_token(self, request: requests.PreparedRequest) -> bool:
        """Return True if a rate-limited request can be sent again at once with another token.

        This is the case if the request's token has no requests left, but another token has.
        """
        name, used = self._find_quota(request).name, self._find_token(request)
        with self._count_lock:
            state = self._quota_states.get(used, {}).get(name)
            if state is None or not state.is_counted or state.remaining > 0:
                return False
            other_states = (
                self._quota_states[token][name] for token in self._tokens if token != used
            )
            return any(other.remaining > 0 for other in other_states)

    def _find_token(self, request: requests.PreparedRequest) -> str:
        """Return the API token in a request's header, or "" if the header has no known token."""
        value = request.headers.get(self._declared.header)
        return next(
            (token for token in self._tokens if self._format_credential(token) == value), ""
        )
