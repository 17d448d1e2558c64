"""Types that a manifest's components and the stream that runs them share.

A component is a frozen dataclass whose fields are the options of the YAML. A field that varies per
request holds a function from scope to value, otherwise the plain value; `resolve` accepts both, so
that the code which runs a component does not depend on templates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeAlias, cast

if TYPE_CHECKING:
    import requests

    from tap_core.http.request import Auth, HTTPRequest
    from tap_core.types import Context, JsonSchema, Record

__all__ = [
    "Authenticator",
    "BackoffStrategy",
    "Condition",
    "DeclarativeStreamProtocol",
    "Decoder",
    "ErrorHandler",
    "InterpolatedText",
    "InterpolatedValue",
    "Page",
    "Parameter",
    "PartitionRouter",
    "ResponseAction",
    "ResponseResolution",
    "Retriever",
    "TemplateScope",
    "Transformation",
    "resolve",
    "resolve_mapping",
]

TemplateScope: TypeAlias = Mapping[str, Any]
"""Variables that templates can use, by name.

Always available: ``config``, ``stream_slice`` (partition and interval together, also as
``stream_partition`` and ``stream_interval``) and ``next_page_token``. After a response also:
``response`` (its document), ``headers``, ``last_record`` and ``last_page_size``; ``record`` where
there is one. The builder adds ``parameters``. Two further names are for components only:
``partition``, the slice without its interval, and ``stream_name``.
"""

InterpolatedText: TypeAlias = Annotated[str | Callable[[TemplateScope], str], "text"]
"""Text option whose template may vary per request.

A field of plain ``str`` may also be a template, but one that uses only config and parameters: it is
rendered before the component is built.
"""

InterpolatedValue: TypeAlias = Annotated[Any, "value"]
"""Option of any type: rendered text that is a Python literal becomes the literal's value.

In mappings and lists each value is a separate template.
"""

Parameter: TypeAlias = Annotated[Any, "value", (str, list)]
"""Query parameter or form field, or all of them as a mapping.

Like `InterpolatedValue`, but only lists and quoted texts are read as literals; all other texts stay
text.
"""

Condition: TypeAlias = Annotated[bool | Callable[[TemplateScope], bool], "condition"]
"""Option that is true or false, evaluated for each scope."""


def resolve(given: Any, scope: TemplateScope) -> Any:
    """Return the value of a field; if the field is a template, render it with ``scope``.

    ``scope`` holds the template variables. Templates inside dicts and lists are rendered too. A
    plain value is returned unchanged.
    """
    if callable(given):
        return given(scope)
    if given.__class__ is dict:
        return {resolve(key, scope): resolve(value, scope) for key, value in given.items()}
    if given.__class__ is list:
        return [resolve(value, scope) for value in given]
    return given


def resolve_mapping(given: Any, scope: TemplateScope) -> dict[str, Any]:
    """Render the templates of a mapping; return {} if the result is not a mapping.

    ``scope`` holds the template variables.
    """
    found = resolve(given, scope)
    return dict(cast(Mapping[str, Any], found)) if isinstance(found, Mapping) else {}


class ResponseAction(Enum):
    """Action of an error handler for a response, as in Airbyte's manifests."""

    SUCCESS = "SUCCESS"
    FAIL = "FAIL"
    RETRY = "RETRY"
    IGNORE = "IGNORE"
    RATE_LIMITED = "RATE_LIMITED"
    REDUCE_PAGE_SIZE = "REDUCE_PAGE_SIZE"
    SPLIT_REQUEST_WINDOW = "SPLIT_REQUEST_WINDOW"
    RESET_PAGINATION = "RESET_PAGINATION"
    REFRESH_TOKEN_THEN_RETRY = "REFRESH_TOKEN_THEN_RETRY"  # noqa: S105  (an action's name)


@dataclass(frozen=True, slots=True)
class ResponseResolution:
    """Resolution that an error handler returns for a response: action, message, failure type."""

    action: ResponseAction
    message: str | None = None
    """Message for the user; None for the default message of the status."""
    failure_type: str | None = None
    """``config_error``, ``system_error`` or ``transient_error``; None for the default."""


class ErrorHandler(Protocol):
    """Error handler: interprets responses, and computes the wait before a retry."""

    @property
    def max_tries(self) -> int:
        """Maximum number of attempts per request, including the first."""

    @property
    def max_seconds(self) -> float | None:
        """Maximum time in seconds for all attempts of a request; None means no limit."""

    def interpret(
        self, response: requests.Response, scope: TemplateScope
    ) -> ResponseResolution | None:
        """Return the resolution (action and message) for a response.

        None applies the default resolution for the HTTP status of the response.
        """

    def compute_wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds to wait after attempt number ``tries``; None for the default wait.

        ``response`` is None if there was no response, for example after a broken connection.
        """


class BackoffStrategy(Protocol):
    """Backoff strategy: computes the wait before a retry."""

    def compute_wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds to wait after attempt number ``tries``.

        If the result is None or 0, the next strategy is tried. ``response`` is None if there was no
        response, for example after a broken connection.
        """


class Authenticator(Protocol):
    """Authenticator: adds credentials to the requests of a requester."""

    def auth(self, stream: DeclarativeStreamProtocol) -> Auth:
        """Return the function that adds credentials to the requests of a stream.

        The tap calls this method once, and shares the function among streams with equal
        authenticators. A function whose tokens can be renewed has a method
        ``update_access_token()``, which is called after a response with status 401.
        """


@dataclass(frozen=True, slots=True)
class Page:
    """Page that was just read, as the input of a pagination strategy."""

    response: requests.Response
    read: Callable[[], Any]
    """Function that returns the response's document, without changes made to its records."""
    extracted_count: int
    """Number of extracted records, before any filter; counts for page and offset increments."""
    selected_count: int
    """Number of records that the record selector returned: ``last_page_size`` in templates."""
    last_record: Record | None
    """Last record that the record selector returned; None if it returned none."""
    reduced_size: int | None = None
    """Page size that was requested, if it was reduced below the manifest's; else None."""

    @property
    def document(self) -> Any:
        """Decoded body of the page; the variable ``response`` in templates."""
        return self.read()


class Decoder(Protocol):
    """Decoder: parses response bodies, such as JSON or CSV, into documents."""

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the documents of a response.

        JSON has one document; other formats have one per line or row.
        """


class Transformation(Protocol):
    """Transformation of records, such as adding or removing fields."""

    def transform(self, record: Record, scope: TemplateScope) -> None:
        """Change a record in place."""


class PartitionRouter(Protocol):
    """Partition router: generates the slices of a stream, each with its partition values."""

    def generate_contexts(self, stream: DeclarativeStreamProtocol) -> Iterable[Context]:
        """Yield the contexts of the slices lazily; a context is a dict of partition values.

        The keys of a context are the partition fields, and ``parent_slice`` if the parent has
        slices. ``stream`` is the stream to read; parent streams are read through it.
        """

    def put(self, request: HTTPRequest, scope: TemplateScope) -> None:
        """Add the slice's partition values to a request, as declared by the request options."""


class Retriever(Protocol):
    """Retriever: reads records, also for other components such as a schema loader."""

    @property
    def requester(self) -> Any:
        """Requester that builds the retriever's requests."""

    @property
    def record_selector(self) -> Any:
        """Record selector that finds the records in the retriever's responses."""


class DeclarativeStreamProtocol(Protocol):
    """Members of a stream that its components use."""

    name: str

    @property
    def config(self) -> Mapping[str, Any]:
        """Config of the connector."""

    def log(self, message: str, *args: Any, level: int = ..., **kwargs: Any) -> None:
        """Log a message that includes the name of the stream."""

    def parent(self, node: Any) -> DeclarativeStreamProtocol:
        """Return the parent stream that the option ``stream`` of a ParentStreamConfig declares.

        Each parent stream is built once per tap.
        """

    def slices(self) -> Iterable[Context | None]:
        """Return the contexts (partition values) of this stream's slices.

        Return [None] if the stream has no partition routers.
        """

    def read_slice(self, context: Context | None) -> Iterable[Record]:
        """Yield the transformed records of a slice, from which a child stream makes its slices.

        Responses that were received earlier in this run are read from the tap's cache.
        """

    def fetch(self, request: HTTPRequest, scope: TemplateScope) -> requests.Response:
        """Send one request for a component, for example to get a token; return the response.

        The request uses the stream's session, retries and API budget, but not its authentication.
        """

    def with_request_only(
        self, retriever: Any, scope: TemplateScope, *, into_file: bool = False
    ) -> DeclarativeStreamProtocol:
        """Return a copy of the stream that sends the requests of another retriever.

        The copy has no slices. With ``into_file`` True, response bodies are stored in files, which
        suits large downloads.
        """

    def send_request(self) -> requests.Response:
        """Send the one request of a copy from `with_request_only`; return the response."""

    def request_records(self, context: None, /) -> Iterable[Record]:
        """Yield the records of all pages, for a stream that has only one slice."""

    def iterate_records(self, retriever: Any) -> Iterable[Record]:
        """Yield the records of another retriever, read as a single slice."""

    @property
    def schema(self) -> JsonSchema:
        """JSON Schema of the stream's records."""

    @property
    def mask(self) -> Mapping[tuple[str, ...], bool]:
        """Selection in the catalog: for each property path, True if selected, otherwise False."""

    def find_parent_state(self, parent: str) -> Any:
        """Return the stored position (state) of a parent stream; None in the first sync.

        ``parent`` is the name of the parent stream.
        """

    def keep_parent_state(self, parent: str, position: Any) -> None:
        """Store the position of a parent stream once all slices yielded so far are synced.

        ``parent`` is the name of the parent stream.
        """

    def resume_from(self, position: Any) -> DeclarativeStreamProtocol:
        """Return a copy of a parent stream that reads only changes after a stored position."""

    @property
    def resume_position(self) -> Any:
        """Position that a parent stream has reached, as a JSON value for `resume_from`.

        The property is None if the position is unknown.
        """
