"""`RESTStream`: stream of records from a JSON API, and `_HTTPStream`, its base for any format.

Public members, signatures and underscore hooks are those of the Meltano Singer SDK 0.54, so that a
tap migrates by changing an import. Helpers that call no method of the stream are in
`tap_core.http`; those that do are in `tap_core.streams.http_requests` and ``credential_origins``.

Credentials are sent only to the origin of ``url_base`` and to `allowed_hosts`. This also applies to
a URL that comes from a response (the next page, a record's URL, a redirect). Log messages and
errors name the stream and the request, without secrets.
"""

from __future__ import annotations

import abc
import sys
import warnings
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import requests

from tap_core import metrics
from tap_core.authenticators import SimpleAuthenticator
from tap_core.authenticators.base import bind_authenticator
from tap_core.authenticators.token_renewal import send_with_renewal
from tap_core.compat.author_overrides import overridable_cached_property, overridable_property
from tap_core.exceptions import FatalAPIError, RetriableAPIError, SingerSDKDeprecationWarning
from tap_core.http.origins import Origin
from tap_core.http.page_iteration import iterate_records
from tap_core.http.request import Auth, RequestFunc, build_body_arguments, prepare_request
from tap_core.http.request import HTTPRequest as HTTPRequest
from tap_core.http.request import JSONPayload as JSONPayload
from tap_core.http.request import PageContext as PageContext
from tap_core.http.response import JSONResponse, check_content_length, is_empty_body, parse_json
from tap_core.http.response_limits import (
    MAX_RESPONSE_BYTES,
    MAX_RESPONSE_SECONDS,
    ResponseLimits,
)
from tap_core.http.retry import (
    TryCounter,
    exponential_backoff,
    random_jitter,
    runtime_backoff,
    with_retries,
)
from tap_core.http.session import make_session
from tap_core.http.transport import DEFAULT_REQUEST_TIMEOUT as DEFAULT_REQUEST_TIMEOUT
from tap_core.http.transport import (
    ProxyCache,
    resize_connection_pool,
)
from tap_core.http.url_paths import PATH_CHARACTERS, check_dot_segments
from tap_core.pagination import (
    BaseAPIPaginator,
    JSONPathPaginator,
    LegacyStreamPaginator,
    SimpleHeaderPaginator,
    SinglePagePaginator,
)
from tap_core.parsing.jsonpath import extract_jsonpath
from tap_core.redaction import Secrets, collect_secrets, redact_url
from tap_core.redaction.process_secrets import install_redaction
from tap_core.streams.core import Stream
from tap_core.streams.credential_origins import (
    find_first_origin,
    make_route,
    make_session_authenticator,
)
from tap_core.streams.http_requests import (
    annotate_errors,
    describe_failure,
    get_user_agent,
    log_retry,
    send_within_limits,
)
from tap_core.streams.window_reader import WindowReader

if sys.version_info >= (3, 13):
    from typing import TypeVar as DefaultTypeVar
else:
    from typing_extensions import TypeVar as DefaultTypeVar

if TYPE_CHECKING:
    from backoff.types import Details

    from tap_core.incremental.cursor import DatetimeBasedCursor
    from tap_core.incremental.record_filter import CursorRecordFilter
    from tap_core.incremental.time_windows import TimeWindow
    from tap_core.singerlib.catalog import Schema
    from tap_core.sync.interfaces import SyncTap
    from tap_core.types import Context, JsonSchema, Record

__all__ = [
    "DEFAULT_PAGE_SIZE",
    "DEFAULT_REQUEST_TIMEOUT",
    "HTTPRequest",
    "JSONPayload",
    "PageContext",
    "RESTStream",
]

DEFAULT_PAGE_SIZE = 1000

_TNum = TypeVar("_TNum", int, float)
_TToken = DefaultTypeVar("_TToken", default=Any)


class _HTTPStream(Stream, abc.ABC, Generic[_TToken]):
    """Base class of a stream of an HTTP API, for any response format."""

    path: str = ""
    """Path of the endpoint, appended to ``url_base``, such as ``/users/{user_id}``. ``{key}`` is
    replaced by a value of the context or a setting."""

    extra_retry_statuses: Sequence[int] = [HTTPStatus.TOO_MANY_REQUESTS]
    """HTTP statuses below 500 for which a request is retried."""

    tolerated_http_errors: Sequence[int] = ()
    """HTTP statuses from 400 on that mean "no records" instead of an error."""

    allow_redirects: bool = True
    """True if redirects are followed."""

    payload_as_json: bool = False
    """True if the request body is sent as JSON."""

    rate_limit: float | None = None
    """Maximum requests per second of this stream, including retries; None for no limit. The tap's
    attribute of the same name is a limit that all of its streams share."""

    respect_retry_after: bool = True
    """True to wait as long as the server requests with ``Retry-After``, up to an hour. If False,
    every wait comes from `backoff_wait_generator`."""

    allowed_hosts: Collection[str] = ()
    """Other hosts that may receive this stream's credentials if a response refers to them:
    ``files.example.com``, ``files.example.com:8443``, ``*.example.com``."""

    max_response_bytes: int | None = MAX_RESPONSE_BYTES
    """Maximum size of a decoded response in bytes; None for no limit. Its parsed JSON may need four
    times as much memory in addition."""

    max_response_seconds: float | None = MAX_RESPONSE_SECONDS
    """Maximum seconds from the first to the last byte of a response; None for no limit."""

    incremental_sync: DatetimeBasedCursor | None = None
    """Cursor that divides the stream into time windows; None to read the stream as a whole.

    The cursor field is the replication key, unless the stream or a catalog defines another one.
    """

    stream_interval: TimeWindow | None = None
    """Time window that is being read, for code that builds requests or changes records."""

    max_parallel_windows: int = 1
    """Number of threads that may read time windows. Set it above 1 only if this stream, and the
    code it uses, is thread-safe. Contexts that are synced in threads read one window at a time."""

    _cursor_record_filter: CursorRecordFilter | None = None
    """Filter for the records of the current window; None if the API filters them."""

    _first_origin: Origin | None = None
    """Origin of the first request of the current pagination, if only the tap's code defines it."""

    _page_size: int = DEFAULT_PAGE_SIZE
    _LOG_REQUEST_METRICS: bool = True
    _LOG_REQUEST_METRIC_URLS: bool = False

    def __init__(
        self,
        tap: SyncTap,
        name: str | None = None,
        schema: JsonSchema | Schema | None = None,
        path: str | None = None,
        *,
        http_method: str | None = None,
    ) -> None:
        """Initialize the stream; arguments other than ``tap`` replace attributes of the class."""
        if path:
            self.path = path
        self._http_headers: dict[str, str] = {}
        self._http_method = http_method
        self._requests_session: requests.Session | None = make_session()
        self.__proxies = ProxyCache()
        install_redaction()
        super().__init__(name=name, schema=schema, tap=tap)

    # Parts of a request

    @overridable_property
    @abc.abstractmethod
    def url_base(self) -> str:
        """Base URL of all requests, as a string. The URL of a request is ``url_base + path``.

        There is no default. Set it as a class attribute, or override it if it depends on settings.
        A ``{key}`` in it is replaced by a setting or a value of the partition or parent record.

        Example:
            url_base = "https://api.example.com/v3"
        """

    def get_url(self, context: Context | None) -> str:
        """Return ``url_base + path``; a context value or a setting replaces each ``{key}``."""
        url = f"{self.url_base}{self.path or ''}"  # some taps set it to None
        values = {**self.config, **(context or {})} if "{" in url else {}
        return check_dot_segments(url, self._fill_placeholders(url, values))

    def _fill_placeholders(self, url: str, values: Mapping[str, Any]) -> str:
        """Return a URL in which each ``{key}`` is replaced by the URL-encoded value of that key."""
        for name, value in values.items():
            if (placeholder := f"{{{name}}}") in url:
                url = url.replace(placeholder, self._url_encode(value))
        return url

    @staticmethod
    def _url_encode(val: Any) -> str:
        """Return a value as text for a URL path; ``/``, ``?`` and ``#`` are percent-encoded."""
        return val.translate(PATH_CHARACTERS) if isinstance(val, str) else str(val)

    def get_url_params(
        self,
        context: Context | None,  # noqa: ARG002 - for overrides
        next_page_token: _TToken | None,  # noqa: ARG002
    ) -> dict[str, Any] | str:
        """Return the query parameters of the request for a page.

        The default is empty. Override it to send filters, the page size and the page token.

        Args:
            context: Values that identify the partition or parent record to read, or None.
            next_page_token: Value from the paginator; None for the first page unless the paginator
                has a start value.

        Returns:
            A dict, in which None omits a parameter and a list repeats it, or an encoded string.

        Example:
            def get_url_params(self, context, next_page_token):
                return {"limit": 100, "cursor": next_page_token}
        """
        return {}

    @overridable_property
    def http_headers(self) -> dict[str, Any]:
        """Headers of every request, as a dict; the authenticator adds further headers.

        The default is empty. Override it to send API-specific headers.

        Example:
            @property
            def http_headers(self):
                return {"X-Api-Version": "2024-01-01"}
        """
        return dict(self._http_headers)

    @overridable_property
    def http_method(self) -> str:
        """HTTP method of every request; GET by default."""
        if self._http_method:
            return self._http_method
        if hasattr(self, "rest_method"):
            warnings.warn(
                "`rest_method` is an older name: use `http_method`.",
                SingerSDKDeprecationWarning,
                stacklevel=2,
            )
            return cast("str", self.rest_method)
        return "GET"

    @http_method.setter
    def http_method(self, value: str) -> None:
        self._http_method = value

    @overridable_cached_property
    def user_agent(self) -> str:
        """Value of the ``User-Agent`` header: the setting ``user_agent``, or the SDK's version."""
        return get_user_agent(self.config)

    def prepare_request_payload(
        self, context: Context | None, next_page_token: _TToken | None
    ) -> JSONPayload:
        """Return the body of the request for a page.

        The default returns None, which sends no body. Override it for APIs that expect parameters
        in the body; `payload_as_json` selects JSON or form encoding.

        Args:
            context: Values that identify the partition or parent record to read, or None.
            next_page_token: Value from the paginator, as in `get_url_params`.

        Returns:
            The payload, or None.

        Example:
            def prepare_request_payload(self, context, next_page_token):
                return {"filter": {"active": True}, "page": next_page_token}
        """

    @overridable_property
    def authenticator(self) -> Auth:
        """Callable that adds credentials to a request and returns the request.

        The default adds no credentials. Override it with a class of `tap_core.authenticators`; use
        ``cached_property`` for authenticators that hold a token.

        Example:
            @cached_property
            def authenticator(self):
                return BearerTokenAuthenticator(token=self.config["token"])
        """
        return SimpleAuthenticator()

    @property
    def requests_session(self) -> requests.Session:
        """HTTP session of the stream, which reuses connections."""
        if not self._requests_session:
            self._requests_session = make_session()
        return self._requests_session

    def _prepare_for_threads(self, threads: int) -> None:
        """Create the shared session and authenticator, with enough connections for ``threads``."""
        _ = self.authenticator, self.user_agent
        resize_connection_pool(self.requests_session, threads)

    @overridable_property
    def timeout(self) -> float:
        """Timeout in seconds for opening a connection, and for each read from the connection."""
        return DEFAULT_REQUEST_TIMEOUT

    def get_http_request(self, *, page: PageContext) -> HTTPRequest:
        """Return the request for a page. Override it to change the request from ``super()``."""
        context, token = page.stream_context, page.next_page_token
        return HTTPRequest(
            url=self.get_url(context),
            method=self.http_method,
            headers=self.http_headers,
            params=cast("dict[str, Any]", self.get_url_params(context, token)),
            data=self.prepare_request_payload(context, token),
        )

    def build_prepared_request(self, *args: Any, **kwargs: Any) -> requests.PreparedRequest:
        """Return an authenticated request; the arguments are those of `requests.Request`."""
        authenticator = bind_authenticator(self.authenticator, self)
        self.requests_session.auth = make_session_authenticator(self, authenticator)
        request = requests.Request(*args, **kwargs)
        if request.auth is None:  # another thread may change the session's authenticator
            request.auth = authenticator
        return prepare_request(self.requests_session, request, user_agent=self.user_agent)

    def prepare_request(
        self, context: Context | None, next_page_token: _TToken | None
    ) -> requests.PreparedRequest:
        """Return the prepared request for a page (deprecated: use `get_http_request`)."""
        params: Any = self.get_url_params(context, next_page_token)
        data = self.prepare_request_payload(context, next_page_token)
        url, headers, method = self.get_url(context), self.http_headers, self.http_method
        request = HTTPRequest(url, method, params, headers, data)
        return self.__build_request(request, lambda: request.params)

    def _prepare_request(
        self, *, context: Context | None, page: BaseAPIPaginator[Any]
    ) -> requests.PreparedRequest:
        """Return the prepared request for the paginator's current page."""
        request = self.get_http_request(
            page=PageContext(stream_context=context, next_page_token=page.current_value)
        )
        return self.__build_request(request, request.encode_params)

    def __build_request(
        self, request: HTTPRequest, find_params: Callable[[], Any]
    ) -> requests.PreparedRequest:
        """Prepare a request, with the bounds of the current time window if there is one.

        ``find_params`` returns the query parameters, which may include the bounds.
        """
        if self.incremental_sync is not None and self.stream_interval is not None:
            self.incremental_sync.put(request, self.stream_interval)
        as_json = self.payload_as_json if request.as_json is None else request.as_json
        params = find_params()  # after put(), which may add parameters
        body = build_body_arguments(request.data, as_json=as_json)
        headers = {**body.pop("headers", {}), **request.headers}
        return self.build_prepared_request(
            method=request.method, url=request.url, params=params, headers=headers, **body
        )

    # Sending

    def _request(
        self, prepared_request: requests.PreparedRequest, context: Context | None
    ) -> requests.Response:
        """Send a request, check the response and return it; raise errors without a retry.

        Only after status 401, send it again if the authenticator can renew its access token.
        """
        authenticator = bind_authenticator(self.authenticator, self)
        send = partial(self.__send, prepared_request, context, authenticator)
        response = send_with_renewal(send, authenticator, self.log, self.tolerated_http_errors)
        self.validate_response(response)
        if response.status_code < HTTPStatus.BAD_REQUEST:
            self._check_response_body(response)
        return response

    def __send(
        self,
        request: requests.PreparedRequest,
        context: Context | None,
        authenticator: Auth,
    ) -> requests.Response:
        """Send a request with credentials, within the rate limits, and return the response."""
        response = send_within_limits(
            self._tap,
            self.name,
            request,
            authenticator,
            rate_limit=self.rate_limit,
            session=self.requests_session,
            secrets=self._known_secrets,
            proxies=self.__proxies,
            timeout=self.timeout,
            allow_redirects=self.allow_redirects,
            route=make_route(self, authenticator),
            limits=ResponseLimits(
                max_response_bytes=self.max_response_bytes,
                max_response_seconds=self.max_response_seconds,
            ),
        )
        tags = {"url": redact_url(request.path_url)} if self._LOG_REQUEST_METRIC_URLS else None
        self._write_request_duration_log(self.path or "", response, context, tags)
        return response

    def _known_secrets(self) -> Secrets:
        """Return the values of secret settings, which must not appear in messages."""
        return collect_secrets(self.config, getattr(self._tap, "config_jsonschema", None))

    def validate_response(self, response: requests.Response) -> None:
        """Raise an error for a failed response.

        Override it for APIs that report errors in the body of a successful response, and call
        ``super()`` first.

        Args:
            response: Response to check.

        Raises:
            RetriableAPIError: The status is 500 or higher, or one of `extra_retry_statuses`.
            FatalAPIError: The status is any other from 400 to 499. Statuses in
                `tolerated_http_errors` raise no error.

        Example:
            def validate_response(self, response):
                super().validate_response(response)
                if response.json().get("status") == "error":
                    raise FatalAPIError(self.response_error_message(response))
        """
        status = response.status_code
        if status in self.tolerated_http_errors:
            return
        if status in self.extra_retry_statuses or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise RetriableAPIError(self.response_error_message(response), response)
        if status >= HTTPStatus.BAD_REQUEST:
            raise FatalAPIError(self.response_error_message(response), response=response)

    def response_error_message(self, response: requests.Response) -> str:
        """Return the error message for a failed response, with secrets redacted."""
        return describe_failure(response, self._known_secrets(), self.path)

    def _check_response_body(self, response: requests.Response) -> None:
        """Raise an error for an invalid body, to cause a retry. The default does nothing."""

    # Retries

    def request_decorator(self, func: RequestFunc) -> RequestFunc:
        """Wrap ``func`` so that the request is sent again after a retryable error."""
        return with_retries(
            wait_generator=self.backoff_wait_generator,
            max_tries=self.backoff_max_tries,
            jitter=self.backoff_jitter,
            handler=self.backoff_handler,
            logger=self.logger,
            respect_retry_after=self.respect_retry_after,
            is_over=lambda: bool(self._tap.run.is_broken),
        )(func)

    def backoff_wait_generator(self) -> Generator[float, Any, None]:
        """Return a generator of the seconds to wait before each retry.

        The default is exponential: 2, 4, 8 and so on. Override it for another sequence, or use
        `backoff_runtime` for waits that depend on the response.

        Example:
            def backoff_wait_generator(self):
                return backoff.constant(interval=10)
        """
        return exponential_backoff()

    def backoff_max_tries(self) -> int:
        """Return the maximum number of attempts per request, as an integer; 5 by default.

        Example:
            def backoff_max_tries(self):
                return 8
        """
        return 5

    def backoff_jitter(self, value: float) -> float:
        """Add a random number of seconds to a wait, and return the sum.

        The default adds up to one second. Override it to return ``value`` for exact waits.

        Args:
            value: Wait in seconds from `backoff_wait_generator`.
        """
        return random_jitter(value)

    def backoff_runtime(self, *, value: Callable[[Any], _TNum]) -> Generator[_TNum, Any, None]:
        """Return a generator of waits that depend on the error. ``value`` computes each wait.

        Args:
            value: Function from the raised error to the seconds to wait.

        Example:
            def backoff_wait_generator(self):
                return self.backoff_runtime(value=lambda error: int(error.response.headers["Wait"]))
        """
        return runtime_backoff(value)

    def backoff_handler(self, details: Details) -> None:
        """Log a failed attempt, before the wait for the next one; override for other reactions.

        Args:
            details: Details of the attempt from the ``backoff`` package.
        """
        log_retry(details, self.name, self.path)

    # Pages and records

    @property
    def _context_reader(self) -> WindowReader:
        """Reader of this stream's partitions. If the stream has a cursor, it reads time windows."""
        return self._get_context_reader(WindowReader)

    def get_records(self, context: Context | None) -> Iterable[Record]:
        """Yield the records of a partition; with ``incremental_sync``, time window by window."""
        return self._context_reader.read(context)

    def request_records(self, context: Context | None) -> Iterable[Record]:
        """Request all pages for a partition or parent record, and yield the records."""
        paginator = self.get_new_paginator() or SinglePagePaginator()
        prepare = self.__choose_request_builder(context, paginator)
        tries = TryCounter(self._request)
        decorated = self.request_decorator(tries)
        sent: list[requests.PreparedRequest] = []

        with self.get_http_request_counter() as counter:
            counter.with_context(context)

            def fetch() -> requests.Response:
                tries.count = 0
                is_first = not sent
                sent[:] = [prepare()]
                if is_first:
                    self._first_origin = find_first_origin(self, sent[0])
                response = decorated(sent[0], context)
                counter.increment()
                self.update_sync_costs(sent[0], response, context)
                return response

            reader = self._context_reader
            log_stop = partial(
                self.log,
                "Pagination stopped after %d pages because no records were found in the last"
                " response",
            )
            with annotate_errors(self.name, sent, tries, self._known_secrets):
                yield from iterate_records(
                    paginator, fetch, self.__parse_checked, log_stop, lambda: reader.has_ended
                )

    def __choose_request_builder(
        self, context: Context | None, paginator: BaseAPIPaginator[Any]
    ) -> Callable[[], requests.PreparedRequest]:
        """Return a function that builds a page's request: `prepare_request` if it is overridden."""
        if type(self).prepare_request is _HTTPStream.prepare_request:
            return partial(self._prepare_request, context=context, page=paginator)
        warnings.warn(
            "prepare_request is deprecated, use get_http_request instead",
            SingerSDKDeprecationWarning,
            stacklevel=3,
        )
        return lambda: self.prepare_request(context, paginator.current_value)

    def __parse_checked(self, response: requests.Response) -> Iterable[Record]:
        """Return the records of a response; none if its error status is a tolerated one."""
        if response.status_code in self.tolerated_http_errors:
            return ()
        return self.parse_response(response)

    @overridable_property
    def records_jsonpath(self) -> str:
        """JSONPath of the records in a response, as a string.

        The default ``$[*]`` selects the elements of a top-level array. Set it if the records are
        inside an object.

        Example:
            records_jsonpath = "$.data[*]"
        """
        return "$[*]"

    @abc.abstractmethod
    def parse_response(self, response: requests.Response) -> Iterable[Record]:
        """Yield the records of a response."""

    @abc.abstractmethod
    def get_new_paginator(self) -> BaseAPIPaginator[Any] | None:
        """Return a new paginator for the pages of one partition, or None for a single page."""

    # Metrics and costs

    def get_http_request_counter(self) -> metrics.Counter:
        """Return a counter that logs the number of this stream's requests as a metric."""
        return metrics.http_request_counter(self.name, endpoint=self.path or "")

    def _write_request_duration_log(
        self,
        endpoint: str,
        response: requests.Response,
        context: Context | None,
        extra_tags: dict[str, Any] | None,
    ) -> None:
        if not self._LOG_REQUEST_METRICS:
            return
        seconds = response.elapsed.total_seconds()
        status, tags = response.status_code, extra_tags or {}
        self._log_metric(
            metrics.http_request_duration(self.name, endpoint, status, seconds, context, **tags)
        )

    def calculate_sync_cost(
        self,
        request: requests.PreparedRequest,  # noqa: ARG002 - for overrides
        response: requests.Response,  # noqa: ARG002
        context: Context | None,  # noqa: ARG002
    ) -> dict[str, int]:
        """Return the costs of a request, such as API credits, by name; empty by default.

        Example:
            def calculate_sync_cost(self, request, response, context):
                return {"credits": int(response.headers["X-Credits"])}
        """
        return {}

    def update_sync_costs(
        self,
        request: requests.PreparedRequest,
        response: requests.Response,
        context: Context | None,
    ) -> dict[str, int]:
        """Add the costs of a request to the totals of this sync, and return the totals by name."""
        costs = self.calculate_sync_cost(request, response, context)
        totals = {kind: self._sync_costs.get(kind, 0) + cost for kind, cost in costs.items()}
        self._sync_costs = {**self._sync_costs, **totals}
        return self._sync_costs


class RESTStream(_HTTPStream[_TToken], abc.ABC, Generic[_TToken]):
    """Base class of a stream of a JSON API.

    Define ``name``, ``url_base``, ``path`` and ``schema``; ``records_jsonpath`` and
    ``next_page_token_jsonpath`` locate the records and the next page's token in a response.

    Examples:
        >>> class Users(RESTStream):
        ...     name, path = "users", "/users"
        ...     url_base = "https://api.example.com/v3"
        ...     records_jsonpath = "$.data[*]"
        ...     next_page_token_jsonpath = "$.next"
        ...     schema = {"properties": {"id": {"type": "integer"}}}
    """

    next_page_token_jsonpath: str | None = None
    """JSONPath of the next page's token in a response, such as ``$.next``; None (the default) if
    the API has none."""

    payload_as_json: bool = True

    def parse_response(self, response: requests.Response) -> Iterable[Record]:
        """Return the records of a JSON response, with fractions as ``Decimal``.

        The default returns the elements at `records_jsonpath`. Override it if a JSONPath cannot
        locate the records.

        Args:
            response: Response that passed `validate_response`.

        Returns:
            An iterator of dicts, one per record.

        Raises:
            NotJSONError: The response is not JSON, for example a login page.

        Example:
            def parse_response(self, response):
                for user_id, user in response.json()["users"].items():
                    yield {"id": user_id, **user}
        """
        if is_empty_body(response):
            return iter(())
        return extract_jsonpath(self.records_jsonpath, parse_json(response, self._known_secrets))

    def _check_response_body(self, response: requests.Response) -> None:
        """Parse the JSON body immediately, so that a truncated body leads to a retry.

        If the class overrides `parse_response`, only the completeness of the body is checked.
        """
        if type(self).parse_response is not RESTStream.parse_response:
            check_content_length(response)
        elif isinstance(response, JSONResponse) and not is_empty_body(response):
            self._check_document(response.read(self._known_secrets, self.next_page_token_jsonpath))

    def _check_document(self, document: Any) -> None:
        """Raise an error if a parsed JSON body reports an error. The default does nothing."""

    def get_new_paginator(self) -> BaseAPIPaginator[Any] | None:
        """Return a new paginator for the pages of one partition, or None for a single page.

        The default paginator reads the next page's token at `next_page_token_jsonpath` if that is
        set, else in the header ``X-Next-Page``. Override it to return another class of
        `tap_core.pagination`.

        Example:
            def get_new_paginator(self):
                return PageNumberPaginator(start_value=1)
        """
        if hasattr(self, "get_next_page_token"):
            warnings.warn(
                "`RESTStream.get_next_page_token` is deprecated: override `get_new_paginator`.",
                DeprecationWarning,
                stacklevel=2,
            )
            return LegacyStreamPaginator(self)
        if self.next_page_token_jsonpath:
            return JSONPathPaginator(self.next_page_token_jsonpath)
        return SimpleHeaderPaginator("X-Next-Page")
