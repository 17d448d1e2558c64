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
    """Return the value of a field in a scope: the plain value, or the rendered template.

    Templates within dicts and lists are rendered too.
    """
    if callable(given):
        return given(scope)
    if given.__class__ is dict:
        return {resolve(key, scope): resolve(value, scope) for key, value in given.items()}
    if given.__class__ is list:
        return [resolve(value, scope) for value in given]
    return given


def resolve_mapping(given: Any, scope: TemplateScope) -> dict[str, Any]:
    """Return the mapping of a field in a scope; {} if the rendered value is not a mapping."""
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
    """Decision of an error handler about a response: action, message and failure type."""

    action: ResponseAction
    message: str | None = None
    """Message for the user; None for the default message of the status."""
    failure_type: str | None = None
    """``config_error``, ``system_error`` or ``transient_error``; None for the default."""


class ErrorHandler(Protocol):
    """Decides about responses, and about the wait before a request is sent again."""

    @property
    def max_tries(self) -> int:
        """Maximum number of attempts per request, including the first."""

    @property
    def max_seconds(self) -> float | None:
        """Maximum time in seconds for all attempts of a request; None for no limit."""

    def interpret(
        self, response: requests.Response, scope: TemplateScope
    ) -> ResponseResolution | None:
        """Return the resolution for a response, or None to apply the default of its status."""

    def compute_wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds to wait after ``tries`` attempts; None for the default wait.

        ``response`` is None if there was none, for example after a broken connection.
        """


class BackoffStrategy(Protocol):
    """Rule for the wait before a request is sent again."""

    def compute_wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds to wait after ``tries`` attempts; None or 0 asks the next strategy.

        ``response`` is None if there was none, for example after a broken connection.
        """


class Authenticator(Protocol):
    """Authenticator of a requester; each kind signs requests in another way."""

    def auth(self, stream: DeclarativeStreamProtocol) -> Auth:
        """Return the function that signs the requests of a stream.

        The tap calls this once and shares the function among streams with equal authenticators. If
        tokens can be renewed, the function has ``update_access_token()``, called after a 401.
        """


@dataclass(frozen=True, slots=True)
class Page:
    """Page that was read, as pagination strategies see it."""

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
        """Decoded body, the variable ``response`` in templates."""
        return self.read()


class Decoder(Protocol):
    """Decoder of response bodies, such as JSON or CSV, to documents."""

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the documents of a response: one for JSON, one per line or row otherwise."""


class Transformation(Protocol):
    """Change of each record, such as adding or removing fields."""

    def transform(self, record: Record, scope: TemplateScope) -> None:
        """Change a record in place."""


class PartitionRouter(Protocol):
    """Source of a stream's slices, each with the values of one partition."""

    def generate_contexts(self, stream: DeclarativeStreamProtocol) -> Iterable[Context]:
        """Yield the contexts of the slices, lazily.

        The keys of a context are the partition fields, and ``parent_slice`` if the parent has
        slices. ``stream`` is the stream that is read; its parents are read through it.
        """

    def put(self, request: HTTPRequest, scope: TemplateScope) -> None:
        """Add the slice's partition values to a request, as the request options say."""


class Retriever(Protocol):
    """Retriever of records for another component, such as a schema loader."""

    @property
    def requester(self) -> Any:
        """Requester that builds the retriever's requests."""

    @property
    def record_selector(self) -> Any:
        """Record selector that finds the records in the retriever's responses."""


class DeclarativeStreamProtocol(Protocol):
    """Members of a stream that its components may use."""

    name: str

    @property
    def config(self) -> Mapping[str, Any]:
        """Config of the connector."""

    def log(self, message: str, *args: Any, level: int = ..., **kwargs: Any) -> None:
        """Log a message with the stream's name."""

    def parent(self, node: Any) -> DeclarativeStreamProtocol:
        """Return the parent stream for the option ``stream`` of a ParentStreamConfig.

        Each parent is built once per tap.
        """

    def slices(self) -> Iterable[Context | None]:
        """Return the contexts of this stream's own slices; [None] without partition routers."""

    def read_slice(self, context: Context | None) -> Iterable[Record]:
        """Yield the transformed records of a slice, for the slices of a child stream.

        Responses that this run has received before come from the tap's cache.
        """

    def fetch(self, request: HTTPRequest, scope: TemplateScope) -> requests.Response:
        """Send one request for a component, for example for a token, and return the response.

        The request has the stream's session, retries and API budget, but not its authentication.
        """

    def with_request_only(
        self, retriever: Any, scope: TemplateScope, *, into_file: bool = False
    ) -> DeclarativeStreamProtocol:
        """Return a copy of the stream that sends only the requests of a retriever.

        ``into_file`` stores response bodies in files, for large downloads.
        """

    def send_request(self) -> requests.Response:
        """Send the request of a copy from `with_request_only`; return the response."""

    def request_records(self, context: None, /) -> Iterable[Record]:
        """Yield the records of all pages of the stream's only slice."""

    def iterate_records(self, retriever: Any) -> Iterable[Record]:
        """Yield the records of another retriever, read without slices."""

    @property
    def schema(self) -> JsonSchema:
        """JSON Schema of the stream's records."""

    @property
    def mask(self) -> Mapping[tuple[str, ...], bool]:
        """Selection in the catalog: True for each selected property, by its path."""

    def find_parent_state(self, parent: str) -> Any:
        """Return the stored position of a parent stream; None in the first sync."""

    def keep_parent_state(self, parent: str, position: Any) -> None:
        """Store a parent's position once all slices yielded so far have been synced."""

    def resume_from(self, position: Any) -> DeclarativeStreamProtocol:
        """Return a copy of a parent stream that reads only the changes since a position."""

    @property
    def resume_position(self) -> Any:
        """Position that a parent stream has reached: a JSON value for `resume_from`, or None."""
