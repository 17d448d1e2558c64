"""`ManifestClient`: HTTP client that sends the requests of a stream of an Airbyte manifest.

The client uses the requester, authenticator, error handler, API budget and response cache that the
manifest declares.

Credentials are sent to the base URL of a requester if its template depends only on the config and
the manifest. If part of a URL comes from a record, a parent's slice or a response, credentials are
sent only to origins that the manifest declares for the same authenticator or lists in
``allowed_hosts``.
"""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import cached_property, partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

import requests

from tap_core import metrics
from tap_core.authenticators import SimpleAuthenticator
from tap_core.authenticators.base import adds_no_credentials, bind_authenticator
from tap_core.authenticators.token_renewal import renew_access_token, send_with_renewal
from tap_core.http.origins import (
    Origin,
    Route,
    check_allowed_hosts,
    has_secrets,
    make_redirect_error,
)
from tap_core.http.page_iteration import iterate_records
from tap_core.http.rate_limit import get_counters
from tap_core.http.request import HTTPRequest, build_body_arguments, prepare_request
from tap_core.http.response import JSONResponse, check_content_length
from tap_core.http.response_limits import ResponseLimits
from tap_core.http.retry import TryCounter, random_jitter, with_retries
from tap_core.http.session import make_session
from tap_core.http.transport import (
    DEFAULT_REQUEST_TIMEOUT,
    ProxyCache,
    resize_connection_pool,
)
from tap_core.manifest.components.decoders import JsonDecoder
from tap_core.manifest.components.error_handlers import (
    DefaultErrorHandler,
    default_resolution,
    make_response_error,
)
from tap_core.manifest.components.pagination_reset import RestartPagination, SplitWindow
from tap_core.manifest.components.requester import RESPONSE_LIMITS
from tap_core.manifest.declared_origins import (
    add_base_origin,
    make_component_route,
    make_trusted_scope,
)
from tap_core.manifest.interfaces import ResponseAction, ResponseResolution, TemplateScope
from tap_core.manifest.token_pool import TokenRotator
from tap_core.redaction import Secrets, collect_secrets
from tap_core.redaction.http import collect_sent_secrets
from tap_core.streams.http_requests import (
    annotate_errors,
    describe_failure,
    get_user_agent,
    log_retry,
    send_within_limits,
)

if TYPE_CHECKING:
    from tap_core.exceptions import SyncError
    from tap_core.http.request import Auth
    from tap_core.manifest.interfaces import ErrorHandler
    from tap_core.manifest.page_loop import PageLoop, PageToken
    from tap_core.manifest.shared_resources import SharedResources
    from tap_core.manifest.stream_components import StreamComponents
    from tap_core.pagination import BaseAPIPaginator
    from tap_core.sync.interfaces import SyncTap
    from tap_core.types import Context, Record

__all__ = ["ManifestClient"]

_RESTARTS: Final[Mapping[ResponseAction, type[RestartPagination]]] = {
    ResponseAction.RESET_PAGINATION: RestartPagination,
    ResponseAction.SPLIT_REQUEST_WINDOW: SplitWindow,
}
"""Exceptions that restart the pagination of a slice, by the action of the error handler."""


class ManifestClient:
    """HTTP client of a stream of an Airbyte manifest, with its authenticator and error handler.

    When a stream is copied, for example for a thread, its client is copied too. The copies share
    the session and the request counter; each has the template variables of the request it sends.
    """

    scope: TemplateScope
    """Template variables of the current request."""

    fixed_scope: TemplateScope | None = None
    """Template variables of one request of an asynchronous job; None for all other requests."""

    into_file: bool = False
    """True if response bodies are stored on disk, because they may be large."""

    _component_handler: ErrorHandler | None = None
    """Error handler of a component during the component's own request, such as a login."""

    _pages: PageLoop | None = None
    """Paginator of the current slice; None during a request that does not fetch a page."""

    def __init__(
        self,
        stream: Any,
        tap: SyncTap,
        shared: SharedResources,
        components: StreamComponents,
        *,
        is_description: bool,
    ) -> None:
        """Initialize the client of a stream.

        Args:
            stream: ManifestStream whose requests are sent.
            tap: Tap of the stream.
            shared: Objects that the streams of the tap share.
            components: Components of the stream.
            is_description: True if the tap generates other streams from the records. The responses
                are then cached.
        """
        self.stream = stream
        self.components = components
        self.scope = {"config": stream.config}
        self.session: requests.Session = make_session()
        tags: dict[str, Any] = {metrics.Tag.STREAM: stream.name}
        self.counter = metrics.Counter(metrics.Metric.HTTP_REQUEST_COUNT, tags)
        self._tap = tap
        self._shared = shared
        self._is_description = is_description
        self._proxies = ProxyCache()
        self._unsigned_origins: set[Origin] = set()
        """Origins that the manifest declares for requests without an authenticator."""

    def copy_for(self, stream: Any, components: StreamComponents) -> ManifestClient:
        """Return a client for a copy of the stream, or for the stream with other components.

        The new client shares the HTTP session and the request counter.
        """
        copied = copy.copy(self)
        copied.stream, copied.components = stream, components
        if components is not self.components:
            vars(copied).pop("signer", None)
        return copied

    def prepare_for_threads(self, threads: int) -> None:
        """Prepare the client for being copied to a number of threads that send requests.

        Create the objects that the copies share, and enlarge the session's connection pool.
        """
        _ = self.signer, self._user_agent, self.components.error_handler
        resize_connection_pool(self.session, threads)

    # Requests

    @cached_property
    def signer(self) -> Auth:
        """Function that adds the stream's credentials to a request.

        Streams with equal authenticators share one function, and so its access token.
        """
        declared = self.components.retriever.requester.authenticator
        if declared is None:
            return SimpleAuthenticator()
        return self._shared.get_signer(declared, self.stream)

    @cached_property
    def _user_agent(self) -> str:
        return get_user_agent(self.stream.config)

    def _build_request(self, request: HTTPRequest) -> requests.PreparedRequest:
        """Return a prepared request without credentials, which are added each time it is sent."""
        body = build_body_arguments(request.data, as_json=bool(request.as_json))
        unprepared = requests.Request(
            request.method,
            request.url,
            params=request.encode_params(),
            headers={**body.pop("headers", {}), **request.headers},
            auth=lambda unsigned: unsigned,
            **body,
        )
        return prepare_request(self.session, unprepared, user_agent=self._user_agent)

    def read_pages(
        self,
        pages: PageLoop,
        make_request: Callable[[PageToken], HTTPRequest],
        context: Context | None,
        has_ended: Callable[[], bool],
    ) -> Iterator[Record]:
        """Request all pages of a slice, or of its current time window, and yield their records.

        Args:
            pages: Paginator of the slice.
            make_request: Function that returns the request for a page token.
            context: Values that identify the partition or parent record of the slice.
            has_ended: Function called after each page; it returns True if no more pages are needed.
        """
        self._pages = pages
        tries = TryCounter(self._request)
        send = self._add_retries(tries)
        sent: list[requests.PreparedRequest] = []

        def fetch() -> requests.Response:
            tries.count = 0
            sent[:] = [self._build_request(make_request(pages.current_value))]
            response: requests.Response = send(sent[0], context)
            self.counter.increment()
            return response

        with annotate_errors(self.stream.name, sent, tries, self.collect_secrets):
            paginator = cast("BaseAPIPaginator[Any]", pages)
            yield from iterate_records(paginator, fetch, pages.parse, has_ended=has_ended)

    def send(self, request: HTTPRequest) -> requests.Response:
        """Send one request, with retries, and return the response.

        Raises:
            SyncError, requests.exceptions.RequestException: the request failed.
        """
        self._pages = None
        ready = self._build_request(request)
        tries = TryCounter(self._request)
        with annotate_errors(self.stream.name, [ready], tries, self.collect_secrets):
            try:
                response: requests.Response = self._add_retries(tries)(ready, None)
            except RestartPagination as restart:  # there is only one page
                raise restart.error from None
        self.counter.increment()
        return response

    def fetch(
        self, request: HTTPRequest, scope: TemplateScope, error_handler: ErrorHandler | None = None
    ) -> requests.Response:
        """Send a component's own request, such as a login, and return the response.

        The request is sent with retries, but without the stream's credentials.

        Args:
            request: Request to send.
            scope: Template variables for the error handler.
            error_handler: Error handler of the component; None for the defaults.
        """
        # A request of the stream may wait for this one.
        before = self.scope, self._component_handler, self._pages
        self.scope, self._component_handler = scope, error_handler or DefaultErrorHandler()
        self._pages = None
        try:
            ready = self._build_request(request)
            response: requests.Response = self._add_retries(self._request_component)(ready)
        finally:
            self.scope, self._component_handler, self._pages = before
        return response

    # Sending

    def _request(
        self, request: requests.PreparedRequest, context: Context | None
    ) -> requests.Response:
        """Send a request once, check the response and return it.

        After a response with status 401, the access token is renewed and the request is sent again.
        """
        authenticator = bind_authenticator(self.signer, self.stream)
        send = partial(self._send, request, context, authenticator)
        response = send_with_renewal(send, authenticator, self.stream.log)
        self._validate_response(response)
        if response.status_code < HTTPStatus.BAD_REQUEST:
            self._check_body(response)
        return response

    def _request_component(self, request: requests.PreparedRequest) -> requests.Response:
        """Send a component's own request once, check the response and return it."""
        route = make_component_route(request, self.components.node, self._requires_https)
        response = self._exchange(request, lambda unsigned: unsigned, route, allow_redirects=False)
        if (redirect := make_redirect_error(response)) is not None:
            raise redirect
        self._validate_response(response)
        return response

    def _send(
        self, request: requests.PreparedRequest, context: Context | None, authenticator: Auth
    ) -> requests.Response:
        """Return the response to a stream's request, from the response cache or from the API.

        If the parent record already contains the first page, that page is returned. A rate-limited
        request is sent again at once if the authenticator has another token.
        """
        if (page := self.stream.find_embedded_page(context)) is not None:
            return JSONResponse.of(page)

        def send(unsigned: requests.PreparedRequest) -> requests.Response:
            response = self._send_once(unsigned.copy(), authenticator)
            while self._has_other_token(response):
                response = self._send_once(unsigned.copy(), authenticator)
            return response

        if not self._is_cached:
            return send(request)
        return self._shared.response_cache.fetch(request, send, self._is_success)

    def _send_once(
        self, request: requests.PreparedRequest, authenticator: Auth
    ) -> requests.Response:
        """Add credentials to a request and send it once, as soon as the API budget allows it.

        Then update the API budget and the quotas of the tokens from the response.
        """
        budget = self._shared.budget
        if budget is not None:
            budget.take(request, get_counters(self._tap), self.stream.sleep)
        response = self._exchange(request, authenticator, self._make_route(authenticator))
        if budget is not None:
            budget.update(request, response, get_counters(self._tap))
        if isinstance(self.signer, TokenRotator):
            self.signer.update_quotas(request, response)
        return response

    def _exchange(
        self,
        request: requests.PreparedRequest,
        authenticator: Auth,
        route: Route,
        *,
        allow_redirects: bool = True,
    ) -> requests.Response:
        """Send a request once, with the session, timeouts and limits of the stream."""
        return send_within_limits(
            self._tap,
            self.stream.name,
            request,
            authenticator,
            session=self.session,
            secrets=self.collect_secrets,
            proxies=self._proxies,
            timeout=self.components.retriever.requester.timeout or DEFAULT_REQUEST_TIMEOUT,
            allow_redirects=allow_redirects,
            route=route,
            limits=self._limits,
            into_file=self.into_file,
        )

    @property
    def _limits(self) -> ResponseLimits:
        declared = zip(RESPONSE_LIMITS, self.components.retriever.requester.limits, strict=True)
        limits: dict[str, Any] = {name: limit for name, limit in declared if limit is not None}
        return ResponseLimits(**limits)

    def collect_secrets(self) -> Secrets:
        """Return the values of secret settings, which must not appear in messages."""
        schema = getattr(self._tap, "config_jsonschema", None)
        return collect_secrets(self.stream.config, schema)

    def _has_other_token(self, response: requests.Response) -> bool:
        """Return True if a response is a rate limit error, and another token has requests left.

        The request can then be sent again at once with this token.
        """
        if not isinstance(self.signer, TokenRotator):
            return False
        is_limited = self._resolve_response(response).action is ResponseAction.RATE_LIMITED
        return is_limited and self.signer.has_other_token(response.request)

    @property
    def _is_cached(self) -> bool:
        """True if responses are cached, because child streams read them or ``use_cache`` is set."""
        if self.fixed_scope is not None:
            return False  # the response to a request for a job's status changes
        is_used_again = self._is_description or self.stream.name in self._shared.parent_names
        return is_used_again or self.components.retriever.requester.use_cache

    # Retries and errors

    @property
    def _error_handler(self) -> ErrorHandler:
        """Error handler of the current request: a component's, or else the stream's handler."""
        return self._component_handler or self.components.error_handler

    def _add_retries(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls ``function`` again after errors that may be temporary."""
        return with_retries(
            wait_generator=self._compute_waits,
            max_tries=lambda: self._error_handler.max_tries,
            jitter=lambda wait: wait,  # the waits of the error handler include jitter
            handler=lambda details: log_retry(details, self.stream.name, None),
            logger=self.stream.logger,
            is_over=lambda: bool(self._tap.run.is_broken),
        )(function)

    def _compute_waits(self) -> Generator[float, Any, None]:
        """Yield the seconds to wait before each retry, from the stream's error handler.

        If the error handler has no wait, the waits are 1, 2, 4 … seconds plus a random jitter. The
        caller sends the last error into the generator, which ends after the handler's maximum time.
        """
        started, limit = time.monotonic(), self._error_handler.max_seconds
        error = yield 0.0
        for tries in itertools.count(1):
            if limit is not None and time.monotonic() - started >= limit:
                return
            response = getattr(error, "response", None)
            wait = self._error_handler.compute_wait(response, tries, self.scope)
            error = yield random_jitter(2.0 ** (tries - 1)) if wait is None else wait

    def _resolve_response(self, response: requests.Response) -> ResponseResolution:
        resolution = self._error_handler.interpret(response, self.scope)
        return resolution or default_resolution(response)

    def _is_success(self, response: requests.Response) -> bool:
        return self._resolve_response(response).action in {
            ResponseAction.SUCCESS,
            ResponseAction.IGNORE,
        }

    def _validate_response(self, response: requests.Response) -> None:
        """Apply the error handler's action for a response, such as retry or ignore.

        Raises:
            RetriableAPIError, FatalAPIError: The action is an error.
            RestartPagination: The action restarts the pagination of the slice.
        """
        resolution = self._resolve_response(response)
        if resolution.action is ResponseAction.SUCCESS:
            return
        if resolution.action is ResponseAction.IGNORE:
            self.stream.log(
                "%s", resolution.message or f"Status {response.status_code} is ignored."
            )
            return
        if resolution.action is ResponseAction.REFRESH_TOKEN_THEN_RETRY:
            renew_access_token(self.signer, response)
        error = self._make_error(resolution, response)
        if resolution.action is ResponseAction.REDUCE_PAGE_SIZE and self._pages is not None:
            self._pages.reduce(error)
            return
        if resolution.action in _RESTARTS:
            raise _RESTARTS[resolution.action](error)
        raise error

    def _make_error(self, resolution: ResponseResolution, response: requests.Response) -> SyncError:
        secrets = self.collect_secrets()
        message = describe_failure(response, secrets, None)
        if resolution.message:
            all_secrets = secrets | collect_sent_secrets(response.request)
            message = f"{all_secrets.hide(resolution.message)} ({message})"
        return make_response_error(resolution, message, response)

    def _check_body(self, response: requests.Response) -> None:
        """Parse a JSON body as soon as it is received, so that a truncated body leads to a retry.

        If the record extractor reads the response itself, the body may have any format, so only its
        length is checked.
        """
        retriever = self.components.retriever
        if getattr(retriever.record_selector.extractor, "replace_decoder", None) is not None:
            if not self.into_file:
                check_content_length(response)
            return
        is_json = isinstance(retriever.response_decoder, JsonDecoder) and response.content
        if is_json and isinstance(response, JSONResponse):
            response.read(self.collect_secrets)

    # Origins that may receive credentials

    def _make_route(self, authenticator: Auth) -> Route:
        """Return the rules that decide which hosts may receive the authenticator's credentials."""

        def carries_credentials(request: requests.PreparedRequest) -> bool:
            return not adds_no_credentials(authenticator) or has_secrets(
                request, self.collect_secrets()
            )

        return Route(
            lambda origin: origin in self._known_origins or origin in self._find_origins(),
            carries_credentials,
            requires_https=self._requires_https,
            allowed_hosts=check_allowed_hosts(self.components.retriever.requester.allowed_hosts),
            setting=f"`allowed_hosts` of the requester of the stream '{self.stream.name}'",
        )

    def _requires_https(self) -> bool:
        """Return True if credentials need HTTPS, because an allowed origin uses HTTPS."""
        return any(origin.scheme == "https" for origin in self._find_origins())

    @property
    def _known_origins(self) -> set[Origin]:
        """Known origins (scheme, host, port) to which requests may send the credentials."""
        is_signed = self.components.retriever.requester.authenticator is not None
        return self._shared.get_origins(self.signer) if is_signed else self._unsigned_origins

    def _find_origins(self) -> set[Origin]:
        """Add the origin of the requester's base URL to the known origins; return all of them.

        The known origins (scheme, host, port) may receive the stream's credentials.
        """
        retriever, config = self.components.retriever, self.stream.config
        routers = None if self.fixed_scope is not None else retriever.routers
        scope = make_trusted_scope(self.scope, config, self.stream.name, routers)
        base = retriever.requester.find_base_url(scope)
        return add_base_origin(self._known_origins, base, self.components.node)
