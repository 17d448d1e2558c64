"""Protocols between a manifest's components and the stream that runs them.

A component is a frozen dataclass whose fields are the keys of the YAML; the code that runs it
uses only the Protocol. Interpolation sees a `TemplateScope`. A field that varies per request
holds a callable from scope to value, and otherwise the plain value; `resolve` handles both, so
the running code needs to know nothing else about templates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeAlias, cast

if TYPE_CHECKING:
    import requests

    from tap_core.http.request import Auth, HTTPRequest
    from tap_core.manifest.cdk_compat.models import CdkStreamSlice
    from tap_core.types import Context, JsonSchema, Record

__all__ = [
    "Authenticator",
    "BackoffStrategy",
    "Condition",
    "CursorReader",
    "DeclarativeStreamProtocol",
    "Decoder",
    "ErrorHandler",
    "Extractor",
    "InterpolatedText",
    "InterpolatedValue",
    "Page",
    "PageCursor",
    "PaginationStrategy",
    "Paginator",
    "Parameter",
    "PartitionRouter",
    "RecordPredicate",
    "ResponseAction",
    "ResponseResolution",
    "Retriever",
    "SchemaLoader",
    "StateMigration",
    "TemplateScope",
    "Transformation",
    "resolve",
    "resolve_mapping",
]

TemplateScope: TypeAlias = Mapping[str, Any]
"""The interpolation scope: ``config``, ``stream_slice`` (partition and interval together, also as
``stream_partition`` and ``stream_interval``) and ``next_page_token``; after a response also
``response`` (its document), ``headers``, ``last_record`` and ``last_page_size``; ``record`` if
there is one. The builder adds ``parameters``, so callers do not. Templates cannot use two further
names: ``partition``, the slice without its interval, and ``stream_name``."""

InterpolatedText: TypeAlias = Annotated[str | Callable[[TemplateScope], str], "text"]
"""A text that may vary per request. A field of plain ``str`` may also be a template, but one that
uses only config and parameters: it is rendered before the component is built."""

InterpolatedValue: TypeAlias = Annotated[Any, "value"]
"""A value of any type: a rendered text that is a Python literal becomes that literal's value. In
mappings and lists each value is a separate template."""

Parameter: TypeAlias = Annotated[Any, "value", (str, list)]
"""A query parameter or form field, or all of them as a mapping: like `InterpolatedValue`, but only
lists and quoted texts are read as literals; all other texts stay text."""

Condition: TypeAlias = Annotated[bool | Callable[[TemplateScope], bool], "condition"]
"""True or False, evaluated for each scope."""


def resolve(given: Any, scope: TemplateScope) -> Any:
    """Return the value of a field in a scope: the plain value or the rendered template."""
    if callable(given):
        return given(scope)
    if given.__class__ is dict:
        return {resolve(key, scope): resolve(value, scope) for key, value in given.items()}
    if given.__class__ is list:
        return [resolve(value, scope) for value in given]
    return given


def resolve_mapping(given: Any, scope: TemplateScope) -> dict[str, Any]:
    """Return the mapping of a field in a scope; {} if the value is not a mapping."""
    found = resolve(given, scope)
    return dict(cast(Mapping[str, Any], found)) if isinstance(found, Mapping) else {}


class ResponseAction(Enum):
    """The actions of Airbyte's error handlers for a response."""

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
    """The decision of an error handler about a response."""

    action: ResponseAction
    message: str | None = None
    """Message for the user; None for the default message."""
    failure_type: str | None = None
    """``config_error``, ``system_error`` or ``transient_error``; None for the status's default."""


class ErrorHandler(Protocol):
    """Chooses the action for a response and the wait before the next attempt."""

    @property
    def max_tries(self) -> int:
        """The maximum number of attempts of a request, including the first."""

    @property
    def max_seconds(self) -> float | None:
        """The number of seconds during which a request is retried; None limits only `max_tries`."""

    def judge(self, response: requests.Response, scope: TemplateScope) -> ResponseResolution | None:
        """Return the action for a response, or None to let another handler decide."""

    def wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds to wait after ``tries`` attempts; None for the default.

        ``response`` is None if there was no response, for example after a broken connection.
        """


class BackoffStrategy(Protocol):
    """A rule for the wait before a request is sent again."""

    def wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds to wait after ``tries`` attempts; None or 0 tries the next strategy.

        ``response`` is None if there was no response.
        """


class Authenticator(Protocol):
    """An authenticator of a manifest."""

    def auth(self, stream: DeclarativeStreamProtocol) -> Auth:
        """Return the function that signs the requests of a stream; called once per tap.

        If tokens can be renewed, the function has ``update_access_token()``, called after a 401.
        """


class PageCursor(Protocol):
    """The pagination of one slice."""

    @property
    def token(self) -> Any:
        """``next_page_token`` of the page to request: a mapping, or None."""

    @property
    def size(self) -> int | None:
        """The page size to request, or None if the manifest sets none."""

    def put(self, request: HTTPRequest, scope: TemplateScope) -> None:
        """Add page token and page size to a request."""

    def advance(self, page: Page, scope: TemplateScope) -> bool:
        """Move to the next page; return True if there is one."""

    def reset(self) -> None:
        """Go back to the first page."""

    def resize(self, size: int | None) -> None:
        """Set the page size of the following requests; None restores the declared size."""


@dataclass(frozen=True, slots=True)
class Page:
    """The page that was read, as a paginator sees it."""

    response: requests.Response
    read: Callable[[], Any]
    """Returns the response's document, without any changes made to its records."""
    size: int
    """Number of extracted records, before any filter; counts for page and offset increments."""
    kept: int
    """Number of records that the record selector returned: ``last_page_size`` in templates."""
    last_record: Record | None
    """The last record that the record selector returned."""
    asked_for: int | None = None
    """The requested page size, if it differs from the manifest's; else None."""

    @property
    def document(self) -> Any:
        """The decoded body, which interpolation sees as ``response``."""
        return self.read()


class PaginationStrategy(Protocol):
    """The computation of the next page's token, for a `DefaultPaginator`."""

    @property
    def first_token(self) -> Any:
        """The token of the first page's request, or None."""

    @property
    def requested_size(self) -> int | None:
        """The page size to request, or None if the manifest sets none."""

    def token_after(self, page: Page, token: Any, scope: TemplateScope) -> Any:
        """Return the token of the page after the one read with ``token``; None at the end."""


class Paginator(Protocol):
    """A paginator of a manifest."""

    def walk(self, scope: TemplateScope) -> PageCursor:
        """Return a new page cursor, which starts at the first page."""


class Decoder(Protocol):
    """A decoder of a response's bytes to documents."""

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the documents of a response: one for JSON, one per line or row otherwise."""


class Extractor(Protocol):
    """An extractor of records from documents."""

    def extract(self, document: Any, scope: TemplateScope) -> Iterable[Any]:
        """Yield the records of one decoded document."""


class RecordPredicate(Protocol):
    """A record filter."""

    def keeps(self, record: Record, scope: TemplateScope) -> bool:
        """Return True if the record passes the filter."""


class Transformation(Protocol):
    """A change to each record."""

    def transform(self, record: Record, scope: TemplateScope) -> None:
        """Change a record in place."""


class PartitionRouter(Protocol):
    """A source of stream slices."""

    def contexts(self, stream: DeclarativeStreamProtocol) -> Iterable[Context]:
        """Yield the contexts of the slices, lazily.

        The keys are the partition fields, and ``parent_slice`` if the parent has slices.
        """

    def put(self, request: HTTPRequest, scope: TemplateScope) -> None:
        """Add the slice's partition values to a request, if a request option says so."""


class Retriever(Protocol):
    """A retriever, such as a ``SimpleRetriever``."""

    @property
    def requester(self) -> Any:
        """The requester."""

    @property
    def record_selector(self) -> Any:
        """The record selector."""


class CursorReader(Protocol):
    """A custom or incrementing-count cursor while it reads one context."""

    @property
    def is_past(self) -> bool:
        """True if a feed has reached records sent earlier, so that no further page is needed."""

    @property
    def state(self) -> Mapping[str, Any]:
        """The state stored when the current slice began; ``stream_state`` in templates."""

    def slices(self) -> Iterable[CdkStreamSlice]:
        """Yield the slices, each after the previous slice was closed."""

    def put(self, request: HTTPRequest, scope: TemplateScope, one: CdkStreamSlice) -> None:
        """Add the slice's values to a request."""

    def takes(self, record: Record, one: CdkStreamSlice) -> bool:
        """Observe a record of a slice; return True if the record is to be sent."""

    def close(self, one: CdkStreamSlice) -> Mapping[str, Any] | None:
        """Close a slice that was sent; return the state to store.

        None means that the highest value of the cursor field is stored.
        """


class StateMigration(Protocol):
    """A conversion of a state that an older version of the connector stored."""

    def should_migrate(self, stream_state: Mapping[str, Any]) -> bool:
        """Return True if the state is from the older version."""

    def migrate(self, stream_state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the state in airbyte-cdk's current format."""


class SchemaLoader(Protocol):
    """A source of a stream's schema."""

    def json_schema(self, stream: DeclarativeStreamProtocol) -> JsonSchema:
        """Return the JSON Schema of a record."""


class DeclarativeStreamProtocol(Protocol):
    """The members of a stream that its components may use."""

    name: str

    @property
    def config(self) -> Mapping[str, Any]:
        """The config."""

    def log(self, message: str, *args: Any, level: int = ..., **kwargs: Any) -> None:
        """Log a message under the stream's name."""

    def parent(self, declared: Any) -> DeclarativeStreamProtocol:
        """Return the stream of a ParentStreamConfig's ``stream``, built once per tap."""

    def slices(self) -> Iterable[Context | None]:
        """Return this stream's own slices; [None] if it has just one."""

    def read_slice(self, context: Context | None) -> Iterable[Record]:
        """Yield the finished records of a slice, for a child stream.

        Responses that this run has received before come from the tap's cache.
        """

    def fetch(self, request: HTTPRequest, scope: TemplateScope) -> requests.Response:
        """Send one request for a component, for example for a token or a schema.

        The request uses the stream's session, retries and API budget, but not its authentication.
        """

    def with_request_only(
        self, retriever: Any, scope: TemplateScope, *, into_file: bool = False
    ) -> DeclarativeStreamProtocol:
        """Return a copy of the stream that sends only the requests of the retriever."""

    def send_request(self) -> requests.Response:
        """Send the request of a copy that `with_request_only` returned; return the response."""

    def request_records(self, context: None, /) -> Iterable[Record]:
        """Send the requests for all pages, and yield the records."""

    def iterate_records(self, retriever: Any) -> Iterable[Record]:
        """Yield the records of another retriever's only slice."""

    @property
    def schema(self) -> JsonSchema:
        """JSON Schema of the stream's records."""

    @property
    def mask(self) -> Mapping[tuple[str, ...], bool]:
        """Selection of each property in the catalog."""

    def find_parent_state(self, parent: str) -> Any:
        """Return the stored position of a parent stream, or None in the first sync."""

    def keep_parent_state(self, parent: str, position: Any) -> None:
        """Store a parent's position as soon as all slices yielded so far have been synced."""

    def resume_from(self, position: Any) -> DeclarativeStreamProtocol:
        """Return a copy of a parent stream that reads only changes since the position."""

    @property
    def resume_position(self) -> Any:
        """Position that a parent stream has reached, as a JSON value that `resume_from` accepts."""
