"""Sending of one HTTP request: redirects, limits of the response, and error messages.

Every request has a timeout. Errors keep their type, because taps catch them by type, but secrets
are removed from their text.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.cookies import RequestsCookieJar
from requests.utils import resolve_proxies, select_proxy

from tap_core.exceptions import ConfigurationError, SyncError
from tap_core.http.connection_pools import (
    InvalidHostError,
    limit_proxied_responses,
    limit_responses,
    skip_cookies,
)
from tap_core.http.fail_fast import limit_timeout
from tap_core.http.https_policy import check_https
from tap_core.http.origins import LONGEST_URL, Route, parse_origin
from tap_core.http.response import JSONResponse
from tap_core.http.response_body import read_body
from tap_core.http.response_limits import (
    IN_FORCE,
    MAX_RESPONSE_SECONDS,
    Deadline,
    ResponseLimits,
)
from tap_core.http.spooled_response import spool_to_file
from tap_core.http.unsendable_requests import explain_unsendable
from tap_core.redaction import Secrets, redact_url
from tap_core.redaction.http import collect_sent_secrets

__all__ = [
    "ANNOTATED_ERRORS",
    "DEFAULT_REQUEST_TIMEOUT",
    "ProxyCache",
    "annotate_error",
    "ask_token_endpoint",
    "format_http_error",
    "get_document",
    "post_document",
    "resize_connection_pool",
    "send_request",
    "token_deadline",
]

DEFAULT_REQUEST_TIMEOUT = 300
"""Seconds to wait for a connection and for each read of a response."""

_TOKEN_BYTES: Final = 10_000_000
"""Largest response of a token endpoint, in bytes."""

ANNOTATED_ERRORS = (SyncError, requests.exceptions.RequestException)
"""Errors of requests to whose messages `annotate_error` adds details."""


class ProxyCache:
    """Cache of the proxy settings in environment variables, by host.

    Without it, the requests package reads all environment variables three times for each request,
    which takes longer than reading a page. A session of another class than `requests.Session`, or a
    session with proxies, does not use it.
    """

    def __init__(self) -> None:
        self._by_host: dict[tuple[str, ...], dict[str, str]] = {}

    def arguments(
        self, session: requests.Session, request: requests.PreparedRequest
    ) -> dict[str, Any]:
        """Return ``{"proxies": ...}`` for a request, to be passed to `requests.Session.send`.

        Return {} for a session that cannot use this cache; the session then finds the proxies
        itself.
        """
        if type(session) is not requests.Session or session.proxies or not session.trust_env:
            return {}
        host = tuple((request.url or "").split("/", 3)[:3])
        if (proxies := self._by_host.get(host)) is None:
            proxies = self._by_host[host] = resolve_proxies(request, {}, trust_env=True)
        return {"proxies": proxies}


def send_request(
    session: requests.Session,
    request: requests.PreparedRequest,
    proxies: ProxyCache,
    *,
    timeout: Any,
    allow_redirects: bool,
    secrets: Callable[[], Secrets],
    route: Route,
    limits: ResponseLimits | None = None,
    into_file: bool = False,
) -> requests.Response:
    """Send a request with a session and read the whole response.

    Args:
        session: Session that sends the request.
        request: Prepared request.
        proxies: Cache of the proxy settings.
        timeout: Timeout, which is passed to `requests.Session.send`.
        allow_redirects: True to follow redirects.
        secrets: Function that returns the values to hide in error messages.
        route: Rules that restrict the origins of the request and its redirects.
        limits: Limits for the size and time of the response.
        into_file: True to read the body into a temporary file, False to read it into memory.

    Raises:
        requests.exceptions.RequestException: An error of the requests package, without secrets.
        ConfigurationError: `require_https` was called, and the URL is plain HTTP.
        UntrustedHostError: Credentials would be sent to a host that is not allowed.
        ResponseTooLargeError, ResponseTooSlowError: The response exceeds a limit.
    """
    route.check(request)
    limits = limits or ResponseLimits()
    deadline = IN_FORCE.retried  # all tries of a request share one deadline
    if deadline is None:
        deadline = Deadline(limits, is_file=into_file)
    else:
        IN_FORCE.retried = None
        deadline.begin_retry()
    IN_FORCE.deadline = IN_FORCE.last = deadline
    IN_FORCE.reading = None
    timeout = limit_timeout(timeout or DEFAULT_REQUEST_TIMEOUT)
    exchange = _Exchange(session, proxies, limits, route, deadline, timeout, into_file)
    try:
        response = exchange.send(request, follow_redirects=allow_redirects)
        if into_file:
            return spool_to_file(response, limits, deadline)
        return JSONResponse.of(response, limits.max_response_bytes, deadline)
    except requests.exceptions.RequestException as error:
        _hide_secrets(error, request, secrets())
        raise
    finally:
        deadline.end()
        IN_FORCE.deadline = None


@dataclass(eq=False, slots=True)
class _Exchange:
    """Sender of one request and of the requests that follow its redirects.

    The fields are the arguments of `send_request`, and the deadline of all these requests.
    """

    session: requests.Session
    proxies: ProxyCache
    limits: ResponseLimits
    route: Route
    deadline: Deadline
    timeout: Any
    into_file: bool

    def send(
        self, request: requests.PreparedRequest, *, follow_redirects: bool
    ) -> requests.Response:
        """Send a request, follow its redirects, and return the final response with its body read.

        If ``follow_redirects`` is False, return the first response, which may be a redirect.
        """
        response = self._send_limited(request)
        history: list[requests.Response] = []
        is_stripped = False
        while follow_redirects and (following := getattr(response, "next", None)) is not None:
            if len(history) >= self.session.max_redirects:
                raise requests.exceptions.TooManyRedirects(
                    f"The server redirects the request more than {self.session.max_redirects}"
                    " times: check the address and the credentials in the configuration.",
                    response=response,
                )
            is_stripped = self.route.prepare_redirect(
                request, response, following, is_stripped=is_stripped
            )
            history.append(response)
            self.deadline.end()
            response = self._send_limited(following)
        if history:
            response.history = history
        return response

    def _send_limited(self, request: requests.PreparedRequest) -> requests.Response:
        """Send one request without following redirects; limit the response's size and time.

        The body is read before the response hooks of the tap are called. If a hook returns a
        different response, the body of that response is read after the hooks.
        """
        check_https(request.url)
        arguments = self.proxies.arguments(self.session, request)
        if self.into_file:
            arguments["stream"] = True
        proxies = arguments.get("proxies") or self.session.proxies
        limit_responses(self.session)
        proxy = select_proxy(request.url or "", proxies) if proxies else None
        if proxy:
            limit_proxied_responses(self.session, request.url or "", proxy)
        hooks: dict[str, Any] = request.hooks or {}
        sdk_hooks = (self._read, self._finish)
        # The hooks of a redirected request are copies, also of the SDK's own hooks.
        tap_hooks = [hook for hook in hooks.get("response") or () if hook not in sdk_hooks]
        first_hooks = [self._read, *tap_hooks] if tap_hooks else []
        request.hooks = {**hooks, "response": [*first_hooks, self._finish]}
        IN_FORCE.is_undeclared_host = not self.route.is_declared(request)
        try:
            with explain_unsendable(request.headers, proxy):
                arguments |= _find_trusted_certificates(self.session)
                return self.session.send(
                    request, allow_redirects=False, timeout=self.timeout, **arguments
                )
        except InvalidHostError as error:
            raise requests.exceptions.InvalidURL(error, request=request) from error
        finally:
            IN_FORCE.is_undeclared_host = False
            request.hooks = {**hooks, "response": tap_hooks}

    def _read(self, response: requests.Response, *_: Any, **__: Any) -> None:
        """Read a response's body within the limits of size and time; called as the first hook."""
        if not self.into_file or response.is_redirect:
            read_body(response, self.limits)

    def _finish(self, response: requests.Response, *_: Any, **__: Any) -> None:
        """Read the body if another hook has replaced the response; called as the last hook."""
        self._read(response)
        _check_location(response)
        if type(self.session.cookies) is RequestsCookieJar and not response.is_redirect:
            skip_cookies(response.raw)  # for speed


def _find_trusted_certificates(session: requests.Session) -> dict[str, str]:
    """Return the argument ``verify`` of `requests.Session.send`, if the environment has a value.

    The value is the path of the trusted certificates (a file or folder) in the environment variable
    ``REQUESTS_CA_BUNDLE`` or ``CURL_CA_BUNDLE``. `requests.Session.send` does not read these
    variables, unlike `requests.Session.request`. Settings of the session take precedence.

    Raises:
        ConfigurationError: The file or folder does not exist.
    """
    if session.verify is not True or not session.trust_env:
        return {}
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        if path := os.environ.get(name):
            if not Path(path).exists():
                raise ConfigurationError(
                    f"There is no file '{path}' with trusted certificates: correct the environment"
                    f" variable {name}, or remove it."
                )
            return {"verify": path}
    return {}


def _check_location(response: requests.Response) -> None:
    """Check that the URL of a redirect can be parsed, before the requests package parses it.

    Raises:
        requests.exceptions.InvalidURL: The URL is not UTF-8 text, or not a URL.
    """
    if response.is_redirect:
        try:
            urlsplit(response.headers["Location"].encode("latin-1").decode())
        except ValueError:
            raise requests.exceptions.InvalidURL(
                "The response redirects to an invalid URL.", response=response
            ) from None


def token_deadline(seconds: float | None = MAX_RESPONSE_SECONDS) -> Deadline:
    """Return a time limit that all tries of one request for an access token share.

    ``seconds`` limits the time from the first byte of a response to its last; None means no limit.
    """
    return Deadline(ResponseLimits(max_response_bytes=_TOKEN_BYTES, max_response_seconds=seconds))


def ask_token_endpoint(
    session: requests.Session,
    url: str,
    *,
    timeout: float,
    deadline: Deadline | None = None,
    **request: Any,
) -> requests.Response:
    """Send a POST to a token endpoint and return the response; redirects are not followed.

    ``timeout`` limits each wait for the server, in seconds. All tries of the same request must pass
    the same ``deadline``, from `token_deadline`. Other keyword arguments are those of
    `requests.Session.post`, such as ``data``.

    Raises:
        requests.exceptions.RequestException: No response was received.
        ConfigurationError: `require_https` was called, and the URL is plain HTTP.
        ResponseTooLargeError, ResponseTooSlowError: The response exceeds the limits.
    """
    check_https(url)
    deadline = deadline or token_deadline()
    deadline.begin_retry()

    def read(response: requests.Response, *_: Any, **__: Any) -> None:
        read_body(response, deadline.limits)
        _check_location(response)

    proxies = session.merge_environment_settings(url, {}, None, None, None)["proxies"]
    limit_responses(session)
    if proxy := select_proxy(url, proxies):
        limit_proxied_responses(session, url, proxy)
    outer, IN_FORCE.deadline = IN_FORCE.deadline, deadline
    try:
        with explain_unsendable(request.get("headers") or {}, proxy):
            return session.post(
                url, timeout=timeout, allow_redirects=False, hooks={"response": read}, **request
            )
    except InvalidHostError as error:
        raise requests.exceptions.InvalidURL(error) from error
    finally:
        deadline.end()
        IN_FORCE.deadline = outer


def get_document(url: str, *, timeout: float, allow_redirects: bool = True) -> requests.Response:
    """Send a GET request without additional headers, and return the response.

    ``timeout`` limits each wait for the server, in seconds. A user name and password in the URL are
    sent only to the origin of the URL. A redirect to another origin is followed without them.

    Raises:
        requests.exceptions.RequestException: No response was received.
        UntrustedHostError: A redirect leads from HTTPS to HTTP.
        ResponseTooLargeError, ResponseTooSlowError: The response exceeds a default limit.
    """
    with requests.Session() as session:
        request = session.prepare_request(requests.Request("GET", url))
        return _send_to_origin(session, request, timeout, allow_redirects=allow_redirects)


def post_document(url: str, document: Any, *, timeout: float) -> requests.Response:
    """Send a document as JSON in a POST request, and return the response.

    ``timeout`` limits each wait for the server, in seconds. Redirects are not followed. A user name
    and password in the URL are sent.

    Raises:
        requests.exceptions.RequestException: No response was received.
        ConfigurationError: `require_https` was called, and the URL is plain HTTP.
        ResponseTooLargeError, ResponseTooSlowError: The response exceeds a default limit.
    """
    with requests.Session() as session:
        request = session.prepare_request(requests.Request("POST", url, json=document))
        return _send_to_origin(session, request, timeout, allow_redirects=False)


def _send_to_origin(
    session: requests.Session,
    request: requests.PreparedRequest,
    timeout: float,
    *,
    allow_redirects: bool,
) -> requests.Response:
    """Send a request and return the response.

    Credentials are sent only to the origin of the request's URL, not to the target of a redirect.
    """
    url = request.url or ""
    origin = parse_origin(url)
    route = Route(
        is_home=lambda target: target == origin,
        has_credentials=lambda _: False,  # a redirect to another origin carries no credentials
        requires_https=lambda: origin is not None and origin.scheme == "https",
    )
    return send_request(
        session,
        request,
        ProxyCache(),
        timeout=timeout,
        allow_redirects=allow_redirects,
        secrets=Secrets,
        route=route,
    )


def _hide_secrets(
    error: requests.exceptions.RequestException,
    request: requests.PreparedRequest,
    secrets: Secrets,
) -> None:
    """Remove secrets from an error's text; remove its chained errors, which contain the URL."""
    text = str(error)
    for url in (request.url or "", request.path_url):
        if url.strip("/"):
            text = text.replace(url, redact_url(url))
    error.args = ((secrets | collect_sent_secrets(request)).hide(text),)
    error.__cause__ = error.__context__ = None


def resize_connection_pool(session: requests.Session, threads: int) -> None:
    """Enlarge the connection pools of a session for at least ``threads`` parallel requests."""
    for adapter in session.adapters.values():
        sizes = vars(adapter)  # private attributes that pickling of HTTPAdapter relies on
        if isinstance(adapter, HTTPAdapter) and sizes["_pool_maxsize"] < threads:
            adapter.init_poolmanager(
                sizes["_pool_connections"], threads, block=sizes["_pool_block"]
            )


def format_http_error(response: requests.Response, *, path: str, excerpt: str) -> str:
    """Return an error message such as ``404 Client Error: Not Found for path: /users``.

    ``excerpt`` is a part of the response's body that the message contains; "" for no excerpt.
    """
    status = response.status_code
    kind = "Client Error" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "Server Error"
    if status < HTTPStatus.BAD_REQUEST:
        kind = "Response refused"
    message = f"{status} {kind}: {response.reason} for path: {path}"
    if excerpt:
        message += f", content is {excerpt}"
    if response.headers:  # names only: values include cookies
        message += f", headers: {','.join(response.headers)}"
    return message


def annotate_error(
    error: BaseException,
    stream: str,
    request: requests.PreparedRequest | None,
    tries: int,
    secrets: Secrets,
) -> None:
    """Add the stream, the request and the number of tries to the message of an error, in place.

    The message then ends like ``[stream 'users', GET https://api.example.com/users, try 2]``. The
    message does not show the values in ``secrets``.
    """
    where = f"stream '{stream}'"
    if request is not None:
        url = request.url or ""
        url_text = redact_url(url) if len(url) <= LONGEST_URL else f"{parse_origin(url)}/…"
        where += f", {request.method} {secrets.hide(url_text)}"
    if tries:
        where += f", try {tries}"
    if isinstance(error, OSError) and error.strerror:  # `str` shows it instead of the arguments
        error.strerror = f"{error.strerror} [{where}]"
        return
    message, *other_args = error.args or ("",)
    if not isinstance(message, str):
        message, other_args = str(error), []
    error.args = (f"{message} [{where}]", *other_args)
