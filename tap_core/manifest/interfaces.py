"""Interfaces of manifest components, such as decoders and authenticators, and of their stream.

A component is a frozen dataclass whose fields are options in the manifest's YAML. If the template
of an option varies per request, its field is a function of the template variables; otherwise it is
a plain value. `resolve` returns the value in both cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, TypeAlias, cast

if TYPE_CHECKING:
    import requests

    from tap_core.http.request import Auth, HTTPRequest
    from tap_core.types import Context, JsonSchema, Record

__all__ = [
    "SLICE_NAMES",
    "Authenticator",
    "BackoffStrategy",
    "Condition",
    "DeclarativeStreamProtocol",
    "Decoder",
    "Document",
    "ErrorHandler",
    "InterpolatedMapping",
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
    "find_variable_names",
    "resolve",
    "resolve_mapping",
]

TemplateScope: TypeAlias = Mapping[str, Any]
"""Variables that templates can use, by name.

Always available: ``config``, ``stream_slice`` (partition and interval together, also as
``stream_partition`` and ``stream_interval``) and ``next_page_token``. After a response also:
``response`` (the decoded body), ``headers``, ``last_record`` and ``last_page_size``. Templates for
a record also have ``record``. The builder adds ``parameters``. Two further names are for components
only: ``partition``, the slice without its interval, and ``stream_name``.
"""

SLICE_NAMES: Final = ("stream_slice", "stream_partition", "stream_interval")
"""Template variables that contain the current slice; all have the same value."""

InterpolatedText: TypeAlias = Annotated[str | Callable[[TemplateScope], str], "text"]
"""Text option whose template may use variables that differ per request.

A field of type ``str`` may also be a template, but may use only config and parameters, because it
is rendered before the component is built.
"""

InterpolatedValue: TypeAlias = Annotated[Any, "value"]
"""Option of any type. A rendered text that is a Python literal becomes the literal's value.

In mappings and lists each value is a separate template.
"""

InterpolatedMapping: TypeAlias = Annotated[Mapping[str, Any] | None, "value"]
"""Mapping whose values may be templates, or one template that renders as a mapping."""

Parameter: TypeAlias = Annotated[Any, "value", (str, list)]
"""Option for one query parameter or form field, or for a mapping of them.

Rendered lists and quoted texts are read as Python literals; all other rendered texts stay text.
"""

Document: TypeAlias = Annotated[str | Mapping[str, Any] | list[Any] | None, "value", (), "document"]
"""JSON document: an option like an `InterpolatedValue`, whose members without a value are omitted.

An object or list that a template returns is not the manifest's text but data, of which nothing is
omitted. Such a template is therefore rendered for each request.
"""

Condition: TypeAlias = Annotated[bool | Callable[[TemplateScope], bool], "condition"]
"""Option that is true or false; its template is evaluated for each request or record."""


def resolve(value: Any, scope: TemplateScope) -> Any:
    """Return the value of a component's option; render it with ``scope`` if it is a template.

    ``scope`` contains the template variables. Templates inside dicts and lists are rendered too;
    any other value is returned unchanged.
    """
    if callable(value):
        return value(scope)
    if value.__class__ is dict:
        return {resolve(key, scope): resolve(item, scope) for key, item in value.items()}
    if value.__class__ is list:
        return [resolve(item, scope) for item in value]
    return value


def find_variable_names(value: Any) -> frozenset[str]:
    """Return the names of the variables that templates in a value use, at all nesting levels."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return frozenset[str]().union(*map(find_variable_names, value))
    template = getattr(value, "template", None)
    return template.names if template is not None else frozenset()


def resolve_mapping(value: Any) -> dict[str, Any]:
    """Render the templates in a mapping, which may use only the config and parameters.

    Return {} if the result is not a mapping.
    """
    mapping = resolve(value, {})
    return dict(cast(Mapping[str, Any], mapping)) if isinstance(mapping, Mapping) else {}


class ResponseAction(Enum):
    """Action that a manifest's error handler chooses for a response, such as RETRY or IGNORE."""

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
    """Result of an error handler for one response: action, message and failure type."""

    action: ResponseAction
    message: str | None = None
    """Message for the user; None for the default message of the HTTP status."""
    failure_type: str | None = None
    """``config_error``, ``system_error`` or ``transient_error``; None for the default."""


class ErrorHandler(Protocol):
    """Component that decides the action for each HTTP response, and the wait before a retry."""

    @property
    def max_tries(self) -> int:
        """Maximum number of attempts per request, including the first."""

    @property
    def max_seconds(self) -> float | None:
        """Maximum time in seconds for all attempts of a request; None means no limit."""

    def interpret(
        self, response: requests.Response, scope: TemplateScope
    ) -> ResponseResolution | None:
        """Return the action and the message for a response.

        Return None for the default resolution of the response's HTTP status.
        """

    def compute_wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds to wait after ``tries`` attempts; None for the default wait.

        After a broken connection, ``response`` is missing (None).
        """


class BackoffStrategy(Protocol):
    """Backoff strategy: computes the wait before a retry."""

    def compute_wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds to wait after the attempt with the number ``tries``, from 1.

        If the result is None or 0, the next strategy is used. ``response`` is None after a broken
        connection.
        """


class Authenticator(Protocol):
    """Authenticator: component that adds credentials to the requests of a stream."""

    def auth(self, stream: DeclarativeStreamProtocol) -> Auth:
        """Return the function that adds credentials to the requests of a stream.

        The tap calls this method once, and shares the function among streams with equal
        authenticators. If a token can be renewed, the function has a method
        ``update_access_token()``, which is called after a response with status 401.
        """


@dataclass(frozen=True, slots=True)
class Page:
    """Page that was just read, from which a pagination strategy finds the next page."""

    response: requests.Response
    read_document: Callable[[], Any]
    """Function that returns the decoded body, the variable ``response`` in templates.

    Later changes of the page's records are not in it.
    """
    extracted_count: int
    """Number of records in the response before any filter; page and offset increments use it."""
    selected_count: int
    """Number of records after the record selector; its name in templates is ``last_page_size``."""
    last_record: Record | None
    """Last record after the record selector; None if no record remains."""
    reduced_size: int | None = None
    """Requested page size if it was reduced below the manifest's page size; otherwise None."""


class Decoder(Protocol):
    """Decoder: parses a response body, such as JSON or CSV, into documents."""

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the documents of a response.

        JSON is one document; other formats have one document per line or row.
        """


class Transformation(Protocol):
    """Transformation of records, such as adding or removing fields."""

    def transform(self, record: Record, scope: TemplateScope) -> None:
        """Change a record in place; ``scope`` contains the template variables."""


class PartitionRouter(Protocol):
    """Partition router: divides a stream into slices, such as one for each parent record."""

    def generate_contexts(self, stream: DeclarativeStreamProtocol) -> Iterable[Context]:
        """Yield one context (a dict of partition values) for each slice of a stream, lazily.

        The keys of a context are the partition fields, and ``parent_slice`` if the parent stream
        has slices.
        """

    def put(self, request: HTTPRequest, scope: TemplateScope) -> None:
        """Add the slice's partition values to a request, where the request options declare them."""


class Retriever(Protocol):
    """Retriever: requests pages and selects records, for a stream or a schema loader."""

    @property
    def requester(self) -> Any:
        """Requester that builds the retriever's requests."""

    @property
    def record_selector(self) -> Any:
        """Record selector that extracts the records from the retriever's responses."""


class DeclarativeStreamProtocol(Protocol):
    """Interface of a manifest's stream, with the members that the manifest's components use."""

    name: str

    @property
    def config(self) -> Mapping[str, Any]:
        """Config settings of the connector."""

    def log(self, message: str, *args: Any, level: int = ..., **kwargs: Any) -> None:
        """Log a message that includes the name of the stream."""

    def sleep(self, seconds: float) -> None:
        """Sleep before a request; raise an error as soon as the sync ends."""

    def parent(self, node: Any) -> DeclarativeStreamProtocol:
        """Return the parent stream that a ParentStreamConfig declares; it is created once per tap.

        ``node`` is the declaration of the parent stream in the manifest.
        """

    def slices(self) -> Iterable[Context | None]:
        """Return the slices of this stream, each as a context (a dict of partition values).

        Return [None] if the stream has no partition routers.
        """

    def read_slice(self, context: Context | None) -> Iterable[Record]:
        """Yield the transformed records of one slice of this parent stream.

        A child stream has one slice for each of them. Responses that were received earlier in this
        run are read from the tap's cache.
        """

    def fetch(
        self, request: HTTPRequest, scope: TemplateScope, error_handler: ErrorHandler | None = None
    ) -> requests.Response:
        """Send one request for a component, for example to get a token; return the response.

        The request uses the stream's session, retries and API budget, but not its authentication.
        ``error_handler`` decides which responses are retried; None for the defaults.
        """

    def with_request_only(
        self, retriever: Any, scope: TemplateScope, *, into_file: bool = False
    ) -> DeclarativeStreamProtocol:
        """Return a copy of the stream that sends only the requests of another retriever.

        For example, the retriever polls an asynchronous job. The copy has no slices. With
        ``into_file`` True, response bodies are stored in files, which suits large downloads.
        """

    def send_request(self) -> requests.Response:
        """Send one request and return the response; only for copies from `with_request_only`."""

    def request_records(self, context: None, /) -> Iterable[Record]:
        """Yield the records of all pages of a stream without slices, and thus without a context."""

    def iterate_records(self, retriever: Any) -> Iterable[Record]:
        """Yield the records of another retriever, such as a schema loader's, without slices."""

    @property
    def schema(self) -> JsonSchema:
        """JSON Schema of the stream's records."""

    @property
    def mask(self) -> Mapping[tuple[str, ...], bool]:
        """Selection in the catalog by property path: True if the property is selected."""

    def find_parent_state(self, parent: str) -> Any:
        """Return the state of a parent stream, as stored in the state of this child stream.

        ``parent`` is the name of the parent stream. Return None if no state is stored.
        """

    def keep_parent_state(self, parent: str, position: Any) -> None:
        """Store the state of a parent stream in the state of this child stream.

        The parent's state is stored after all slices read so far are synced. ``parent`` is the name
        of the parent stream, ``position`` its `resume_position`.
        """

    def resume_from(self, position: Any) -> DeclarativeStreamProtocol:
        """Return a copy of a parent stream that reads only changes since the state ``position``."""

    @property
    def resume_position(self) -> Any:
        """State that this parent stream has reached, as JSON, for `resume_from` in the next sync.

        A stream that `resume_from` did not create has no such state.
        """
