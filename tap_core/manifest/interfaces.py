"""What the components of a manifest are to each other, and to the stream that runs them.

Rules of the room: Protocols and plain values only. A component is a frozen dataclass whose
fields are the keys of the YAML; whoever runs it knows only what it can do, as said here. What
a template may see is a `Scope`; a field that may vary per request holds a callable from scope
to value where it does, and the plain value where it does not, so `resolved` is all that the
running code ever says about templates.
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
"""What a template sees: ``config``, ``stream_slice`` (partition and interval together, also as
``stream_partition`` and ``stream_interval``), ``next_page_token``; behind an answer also
``response`` (its document), ``headers``, ``last_record``, ``last_page_size``; ``record`` where
there is one. ``parameters`` are the component's own and no business of the caller. What no
template can name is ``partition``, the slice without its interval, and ``stream_name``."""

InterpolatedText: TypeAlias = Annotated[str | Callable[[TemplateScope], str], "text"]
"""A text that may vary per request. A field that is plain ``str`` may be a template, too, but
of configuration and parameters only: it is settled before the component is made."""

InterpolatedValue: TypeAlias = Annotated[Any, "value"]
"""A value of any type: what a template gives is read as a Python literal where it is one. In
mappings and lists each value is a template of its own."""

Parameter: TypeAlias = Annotated[Any, "value", (str, list)]
"""A query parameter or field of a form, or all of them as a mapping: as a `Value`, but of what a
template or a text gives only lists and quoted texts are read as literals; all else stays text."""

Condition: TypeAlias = Annotated[bool | Callable[[TemplateScope], bool], "condition"]
"""True or false, decided with each scope."""


def resolve(given: Any, scope: TemplateScope) -> Any:
    """Return the value of a field in a scope: what it is, or what its template gives."""
    if callable(given):
        return given(scope)
    if given.__class__ is dict:
        return {resolve(key, scope): resolve(value, scope) for key, value in given.items()}
    if given.__class__ is list:
        return [resolve(value, scope) for value in given]
    return given


def resolve_mapping(given: Any, scope: TemplateScope) -> dict[str, Any]:
    """Return the mapping that a field holds or its template gives; nothing is an empty one."""
    found = resolve(given, scope)
    return dict(cast(Mapping[str, Any], found)) if isinstance(found, Mapping) else {}


class ResponseAction(Enum):
    """What is to be done about an answer, in Airbyte's words."""

    SUCCESS = "SUCCESS"
    FAIL = "FAIL"
    RETRY = "RETRY"
    IGNORE = "IGNORE"
    RATE_LIMITED = "RATE_LIMITED"
    REDUCE_PAGE_SIZE = "REDUCE_PAGE_SIZE"
    SPLIT_REQUEST_WINDOW = "SPLIT_REQUEST_WINDOW"
    RESET_PAGINATION = "RESET_PAGINATION"
    REFRESH_TOKEN_THEN_RETRY = "REFRESH_TOKEN_THEN_RETRY"  # noqa: S105  (a word of the manifest)


@dataclass(frozen=True, slots=True)
class ResponseResolution:
    """What an error handler says of an answer."""

    action: ResponseAction
    message: str | None = None
    """For a person; None where the answer speaks for itself."""
    failure_type: str | None = None
    """``config_error``, ``system_error``, ``transient_error``; None: as usual for the status."""


class ErrorHandler(Protocol):
    """Judges answers, and says how long to wait before the next try."""

    @property
    def max_tries(self) -> int:
        """How often a request is sent before its failure counts, the first time included."""

    @property
    def max_seconds(self) -> float | None:
        """For how long a request is tried again, None for as often as `max_tries` says."""

    def judge(self, response: requests.Response, scope: TemplateScope) -> ResponseResolution | None:
        """Return what is to be done about an answer; None: another handler may know."""

    def wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds before the next try after ``tries`` of them; None: as usual.

        ``response`` is None where there was none, such as after a broken connection.
        """


class BackoffStrategy(Protocol):
    """How long to wait before a request is sent again."""

    def wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds to wait after ``tries`` of them; None or 0: ask the next strategy.

        ``response`` is None where there was none.
        """


class Authenticator(Protocol):
    """An authenticator of a manifest."""

    def auth(self, stream: DeclarativeStreamProtocol) -> Auth:
        """Return what puts credentials on a request of a stream; asked once per tap.

        Where tokens can be renewed it has ``update_access_token()``, called after a 401.
        """


class PageCursor(Protocol):
    """One walk through the pages of one slice."""

    @property
    def token(self) -> Any:
        """``next_page_token`` for the page that is asked for now: a mapping, or None."""

    @property
    def size(self) -> int | None:
        """How many records a page is asked to have, None where that is not said."""

    def put(self, request: HTTPRequest, scope: TemplateScope) -> None:
        """Add page and page size to a request."""

    def advance(self, page: Page, scope: TemplateScope) -> bool:
        """Move on; return whether there is another page."""

    def reset(self) -> None:
        """Go back to the first page."""

    def resize(self, size: int | None) -> None:
        """Ask for so many records a page from now on; None: for as many as is declared."""


@dataclass(frozen=True, slots=True)
class Page:
    """What a paginator may know of the page that was read."""

    response: requests.Response
    read: Callable[[], Any]
    """Gives the document of the answer as it came, whatever became of its records since."""
    size: int
    """Records that the extractor found, before any filter: what page and offset go by."""
    kept: int
    """Records that came out of the selector: ``last_page_size`` of templates."""
    last_record: Record | None
    """The last of those."""
    asked_for: int | None = None
    """How many records it was to have, where that is not what the manifest says."""

    @property
    def document(self) -> Any:
        """The decoded body, as templates see it as ``response``."""
        return self.read()


class PaginationStrategy(Protocol):
    """What tells one page from the next, for a `DefaultPaginator`."""

    @property
    def first_token(self) -> Any:
        """The token that the first page is asked for with, None for none."""

    @property
    def requested_size(self) -> int | None:
        """How many records a page is asked to have, None where that is not said."""

    def token_after(self, page: Page, token: Any, scope: TemplateScope) -> Any:
        """Return the token of the page after one that ``token`` brought; None after the last."""


class Paginator(Protocol):
    """From one page to the next."""

    def walk(self, scope: TemplateScope) -> PageCursor:
        """Begin a walk."""


class Decoder(Protocol):
    """Bytes of an answer to documents."""

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the documents of an answer: one for JSON, one per line, row … for others."""


class Extractor(Protocol):
    """Documents to records."""

    def extract(self, document: Any, scope: TemplateScope) -> Iterable[Any]:
        """Yield the records of one decoded document."""


class RecordPredicate(Protocol):
    """Which records stay."""

    def keeps(self, record: Record, scope: TemplateScope) -> bool:
        """Return whether a record stays."""


class Transformation(Protocol):
    """A change to each record."""

    def transform(self, record: Record, scope: TemplateScope) -> None:
        """Change a record in place."""


class PartitionRouter(Protocol):
    """The slices of a stream."""

    def contexts(self, stream: DeclarativeStreamProtocol) -> Iterable[Context]:
        """Yield the contexts of the slices, lazily.

        Keys are the partition fields, and ``parent_slice`` where a parent has slices.
        """

    def put(self, request: HTTPRequest, scope: TemplateScope) -> None:
        """Add what tells a slice apart to a request, where an option says so."""


class Retriever(Protocol):
    """What asks for records: a ``SimpleRetriever``."""

    @property
    def requester(self) -> Any:
        """What makes requests."""

    @property
    def record_selector(self) -> Any:
        """What finds records in answers."""


class CursorReader(Protocol):
    """A cursor that is none of dates, at work on one context."""

    @property
    def is_past(self) -> bool:
        """Whether no page is to follow: a feed has come to what was sent before."""

    @property
    def state(self) -> Mapping[str, Any]:
        """What was kept when the slice in hand began: ``stream_state`` of templates."""

    def slices(self) -> Iterable[CdkStreamSlice]:
        """Yield the slices, each when the one before is closed."""

    def put(self, request: HTTPRequest, scope: TemplateScope, one: CdkStreamSlice) -> None:
        """Add what tells a slice apart to a request."""

    def takes(self, record: Record, one: CdkStreamSlice) -> bool:
        """Look at a record of a slice; return whether it is sent."""

    def close(self, one: CdkStreamSlice) -> Mapping[str, Any] | None:
        """Note that a slice was sent; return what is to be kept, None for the highest value."""


class StateMigration(Protocol):
    """What an older version of a connector stored, as the manifest's stream stores it."""

    def should_migrate(self, stream_state: Mapping[str, Any]) -> bool:
        """Return whether a state is of that version."""

    def migrate(self, stream_state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return it in airbyte-cdk's form of today."""


class SchemaLoader(Protocol):
    """Where the schema of a stream comes from."""

    def json_schema(self, stream: DeclarativeStreamProtocol) -> JsonSchema:
        """Return the schema of a record."""


class DeclarativeStreamProtocol(Protocol):
    """What components may ask of the stream that they are part of."""

    name: str

    @property
    def config(self) -> Mapping[str, Any]:
        """The settings."""

    def log(self, message: str, *args: Any, level: int = ..., **kwargs: Any) -> None:
        """Log under the stream's name."""

    def parent(self, declared: Any) -> DeclarativeStreamProtocol:
        """Return the stream of a ParentStreamConfig's ``stream``, made once per tap."""

    def slices(self) -> Iterable[Context | None]:
        """Yield this stream's own slices, None where it has just one."""

    def read_slice(self, context: Context | None) -> Iterable[Record]:
        """Yield the finished records of a slice, for a child.

        What was asked and answered before in this run comes from the tap's cache.
        """

    def fetch(self, request: HTTPRequest, scope: TemplateScope) -> requests.Response:
        """Send one request of a component's own, such as for a token or a schema.

        The session, retries and budget are the stream's, its authentication is not used.
        """
