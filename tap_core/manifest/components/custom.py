"""Custom components: Python classes next to the manifest, written for airbyte-cdk.

A class is instantiated on first use, with those of its fields that the manifest sets. Arguments and
return values are converted between airbyte-cdk's types and this package's. A class that cannot be
run reliably is rejected when the manifest is loaded, with a message that names the alternative.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Final, cast

import requests

from tap_core.http.request import Auth, HTTPRequest
from tap_core.manifest.cdk_compat.adapters import adapt, to_stream_slice
from tap_core.manifest.cdk_compat.custom_code_import import load_class
from tap_core.manifest.cdk_compat.error_handlers import CdkBackoffStrategy
from tap_core.manifest.cdk_compat.models import CdkStreamSlice
from tap_core.manifest.cdk_compat.models import Record as CdkRecord
from tap_core.manifest.cdk_compat.partition_routers import StreamOwner
from tap_core.manifest.cdk_compat.requesters import CdkHttpRequester
from tap_core.manifest.cdk_compat.state_migrations import CdkDeclaration
from tap_core.manifest.cdk_compat.type_guards import is_dict, is_mapping
from tap_core.manifest.components.error_handlers import DefaultErrorHandler
from tap_core.manifest.components.partition_routers import PartitionSlice
from tap_core.manifest.components.query_properties import QueryProperties, merge_objects
from tap_core.manifest.components.requester import (
    RESPONSE_LIMITS,
    RequestSpec,
    find_property_parameters,
    get_request_properties,
)
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import (
    Authenticator,
    DeclarativeStreamProtocol,
    Decoder,
    ErrorHandler,
    Page,
    ResponseAction,
    ResponseResolution,
    TemplateScope,
)
from tap_core.manifest.state_translation import make_context
from tap_core.types import Context, JsonSchema, Record

__all__ = [
    "Custom",
    "CustomAuthenticator",
    "CustomBackoffStrategy",
    "CustomDecoder",
    "CustomErrorHandler",
    "CustomPaginationStrategy",
    "CustomPartitionRouter",
    "CustomRecordExtractor",
    "CustomRecordFilter",
    "CustomRequester",
    "CustomSchemaLoader",
    "CustomSchemaNormalization",
    "CustomStateMigration",
    "CustomTransformation",
    "add_declared_fields",
    "to_context",
]

_instance_lock: Final = threading.RLock()
_NO_STATE: Final[Mapping[str, Any]] = {}
_SENDING_METHODS: Final = ("send_request", "_request_params", "_request_headers", "_http_client")
"""Methods of airbyte-cdk's HttpRequester that send requests, which this SDK does itself."""
_OPTION_METHODS: Final = (
    "get_request_params",
    "get_request_headers",
    "get_request_body_data",
    "get_request_body_json",
)
"""Methods of a custom class that return parameters, headers or body fields for a request."""


@dataclass(frozen=True, kw_only=True)
class Custom:
    """Base class of components of an Airbyte manifest that delegate to a Python class.

    The connector provides the class; the manifest names it in `class_name` and may set its fields.
    """

    class_name: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Values that the manifest sets for fields of the class. Nested components are instantiated."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    folder: Path = field(default_factory=Path)
    place: str = field(default="", compare=False)

    METHODS: ClassVar[tuple[str, ...]] = ()
    """Methods that the connector's class must have."""

    def __post_init__(self) -> None:
        cls = load_class(self.class_name, self.folder)
        for method in self.METHODS:
            if not callable(getattr(cls, method, None)):
                raise ManifestError(
                    f"{self.class_name} has no method {method}(), which a"
                    f" {type(self).__name__} needs."
                )

    @cached_property
    def instance(self) -> Any:
        """Instance of the connector's Python class, shared by all threads and created on first use.

        Raises:
            ManifestError: The class cannot be instantiated.
        """
        known = self.__dict__  # cached_property stores the result there only after the lock
        with _instance_lock:
            if "instance" not in known:
                known["instance"] = self._instantiate()
            return known["instance"]

    @cached_property
    def owner(self) -> StreamOwner:
        """Reference to the stream that uses this component.

        Parent streams and authenticators inside the component send their requests through the
        stream.
        """
        return StreamOwner()

    @cached_property
    def _stream_names(self) -> list[str]:
        """List for the name of the first stream, because fields of this class are frozen."""
        return []

    def remember_stream(self, scope: TemplateScope) -> None:
        """Store the stream name, which the connector's Python class receives in its field ``name``.

        ``scope`` contains the template variables, among them ``stream_name``. If several streams
        share the component, the first name is kept.
        """
        if not self._stream_names and (name := scope.get("stream_name")):
            self._stream_names.append(str(name))

    @property
    def _name(self) -> str:
        """Stream name to pass to the connector's Python class, which is named in ``class_name``.

        As long as no stream has called `remember_stream`, it is ``$parameters.name``, or "".
        """
        return self._stream_names[0] if self._stream_names else str(self.parameters.get("name", ""))

    @cached_property
    def _extra_fields(self) -> dict[str, Any]:
        """Constructor arguments that methods of a subclass have stored, by name."""
        return {}

    def _get_extra_fields(self) -> Mapping[str, Any]:
        """Return constructor arguments that the manifest cannot set, by name; {} by default."""
        return self._extra_fields

    def _instantiate(self) -> Any:
        cls = load_class(self.class_name, self.folder)
        values = {
            **cast("dict[str, Any]", adapt(self.fields, self.owner, self.config)),
            "config": self.config,
            "parameters": dict(self.parameters),
            **self._get_extra_fields(),
        }
        names = {name for base in cls.__mro__ for name in vars(base).get("__annotations__", ())}
        try:
            return cls(**{name: value for name, value in values.items() if name in names})
        except ManifestError:
            raise
        except TypeError as error:  # its text contains field names, but never values
            raise ManifestError(f"{self.place}: {self.class_name}: {error}") from error
        except Exception as error:  # a custom constructor may raise any error
            raise ManifestError(
                f"{self.place}: {self.class_name} cannot be instantiated: {_describe_error(error)}"
            ) from error


def _describe_error(error: Exception) -> str:
    """Return the type, file and line of an exception of custom code, for an error message.

    The exception's own message is omitted, because it may contain secrets.
    """
    frames = inspect.getinnerframes(error.__traceback__) if error.__traceback__ else []
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{where}"


def _make_request_arguments(scope: TemplateScope) -> dict[str, Any]:
    """Return the keyword arguments for airbyte-cdk's request methods, such as get_request_params.

    They are ``stream_state``, ``stream_slice`` and ``next_page_token``, from the template variables
    in ``scope``.
    """
    return {
        "stream_state": scope.get("stream_state", _NO_STATE),
        "stream_slice": to_stream_slice(scope),
        "next_page_token": scope.get("next_page_token"),
    }


# Records


class CustomRecordExtractor(Custom):
    """Record extractor that calls ``extract_records(response)`` of a connector's Python class."""

    METHODS: ClassVar[tuple[str, ...]] = ("extract_records",)

    def replace_decoder(self, decoder: Decoder) -> Any:
        """Return a function that yields an API response without decoding it.

        The connector's class decodes responses itself. It receives ``decoder`` in its field
        ``decoder``.
        """
        self._extra_fields["decoder"] = decoder
        return lambda response: iter((response,))

    def extract(self, document: requests.Response) -> Iterable[Any]:
        """Return the records that the connector's Python class extracts from a response.

        ``document`` is the undecoded response.
        """
        return cast("Iterable[Any]", self.instance.extract_records(document) or ())


class CustomRecordFilter(Custom):
    """Record filter that calls ``filter_records(records, …)`` of a connector's Python class."""

    METHODS: ClassVar[tuple[str, ...]] = ("filter_records",)

    def keeps(self, record: Record, scope: TemplateScope) -> bool:
        """Return True if the connector's class keeps the record, False if it drops the record."""
        filtered = self.instance.filter_records([record], **_make_request_arguments(scope))
        return any(True for _ in filtered)


class CustomTransformation(Custom):
    """Record transformation that calls ``transform(record, …)`` of a connector's Python class."""

    METHODS: ClassVar[tuple[str, ...]] = ("transform",)

    @cached_property
    def transform(self) -> Any:
        """Function that changes a record in place.

        Its arguments are the record and the template variables (config, stream slice and so on).
        """
        change = partial(self.instance.transform, config=self.config, stream_state=_NO_STATE)
        converted: tuple[Any, CdkStreamSlice] | None = None

        def transform(record: Record, scope: TemplateScope) -> None:
            nonlocal converted
            stream_slice = scope.get("stream_slice")
            # A local name, since another thread may convert another slice.
            latest = converted
            if latest is None or latest[0] is not stream_slice:
                latest = converted = (stream_slice, to_stream_slice(scope))
            change(record, stream_slice=latest[1])

        return transform


class CustomSchemaNormalization(Custom):
    """Schema normalization that calls ``transform(record, schema)`` of a connector's class."""

    METHODS: ClassVar[tuple[str, ...]] = ("transform",)

    def transform(self, record: Record, schema: Mapping[str, Any]) -> None:
        """Convert the values of a record to the types in its JSON schema, in place."""
        self.instance.transform(record, schema)


class CustomDecoder(Custom):
    """Decoder that calls ``decode(response)`` of a connector's Python class."""

    METHODS: ClassVar[tuple[str, ...]] = ("decode",)

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the documents that the connector's Python class parses from a response."""
        return iter(self.instance.decode(response))


class CustomSchemaLoader(Custom):
    """Schema loader that calls ``get_json_schema()`` of a connector's Python class."""

    METHODS: ClassVar[tuple[str, ...]] = ("get_json_schema",)

    def json_schema(self, stream: DeclarativeStreamProtocol) -> JsonSchema:
        """Return the JSON Schema of the stream's records, as the connector's class loads it."""
        self.owner.stream = stream
        return cast("JsonSchema", self.instance.get_json_schema())


class CustomStateMigration(Custom):
    """State migration that calls ``migrate`` of a connector's Python class for older states."""

    METHODS: ClassVar[tuple[str, ...]] = ("should_migrate", "migrate")

    def set_stream(self, stream: Mapping[str, Any]) -> None:
        """Set ``declarative_stream`` of the connector's class to the declaration of the stream."""
        self._extra_fields["declarative_stream"] = CdkDeclaration(stream)

    def should_migrate(self, stream_state: Mapping[str, Any]) -> bool:
        """Return True if the connector's Python class reports that the state must be migrated."""
        return bool(self.instance.should_migrate(stream_state))

    def migrate(self, stream_state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Convert a state with the connector's class to the connector's current format."""
        return cast("Mapping[str, Any]", self.instance.migrate(stream_state))


# Requests


class CustomAuthenticator(Custom):
    """Authenticator that calls a connector's Python class with each prepared request.

    The class may also return query parameters or a body, for example with ``get_request_params``.
    """

    METHODS: ClassVar[tuple[str, ...]] = ("__call__",)

    def auth(self, stream: DeclarativeStreamProtocol) -> Auth:
        """Return a callable that adds the credentials of the connector's class to a request."""
        self.owner.stream = stream
        return self._sign

    def _sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        authenticator = self.instance
        signed: Any = authenticator(request) or request
        if params := _call_method(authenticator, "get_request_params"):
            signed.prepare_url(signed.url, params)
        if form := _call_method(authenticator, "get_request_body_data"):
            signed.prepare_body(form, None)
        if document := _call_method(authenticator, "get_request_body_json"):
            signed.prepare_body(None, None, document)
        signed.prepare_content_length(signed.body)  # a signature may have changed the body
        return cast("requests.PreparedRequest", signed)


def _call_method(instance: Any, method: str, *args: Any, **kwargs: Any) -> Any:
    """Call a method and return its result; return None if ``instance`` has no such method."""
    function = getattr(instance, method, None)
    return function(*args, **kwargs) if callable(function) else None


class CustomErrorHandler(Custom):
    """Error handler that calls a connector's class: ``interpret_response`` and ``backoff_time``."""

    METHODS: ClassVar[tuple[str, ...]] = ("interpret_response",)

    @property
    def max_tries(self) -> int:
        """Maximum number of attempts per request, including the first."""
        retries = getattr(self.instance, "max_retries", None)
        return DefaultErrorHandler().max_tries if retries is None else 1 + max(0, int(retries))

    @property
    def max_seconds(self) -> float | None:
        """Maximum time in seconds for all attempts of a request; None means no limit."""
        seconds = getattr(self.instance, "max_time", None)
        return None if seconds is None else float(seconds)

    def interpret(
        self, response: requests.Response, scope: TemplateScope
    ) -> ResponseResolution | None:
        """Return the action, message and failure type that the connector's class selects.

        Return None if the class returns no action.
        """
        resolution = self.instance.interpret_response(response)
        if resolution is None or resolution.response_action is None:
            return None
        failure_type = resolution.failure_type
        return ResponseResolution(
            ResponseAction(_get_enum_text(resolution.response_action)),
            resolution.error_message,
            None if failure_type is None else _get_enum_text(failure_type),
        )

    def compute_wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds to wait after ``tries`` attempts; None uses the default backoff."""
        return _get_wait_seconds(self.instance, response, tries)


class CustomBackoffStrategy(Custom):
    """Backoff strategy that calls ``backoff_time(response, tries)`` of a connector's class."""

    METHODS: ClassVar[tuple[str, ...]] = ("backoff_time",)

    def __post_init__(self) -> None:
        """Raise ManifestError if the class implements neither ``backoff_time`` nor ``backoff``.

        ``backoff`` is the older name of the method.
        """
        super().__post_init__()
        cls: Any = load_class(self.class_name, self.folder)
        if cls.backoff_time is CdkBackoffStrategy.backoff_time and not hasattr(cls, "backoff"):
            raise ManifestError(f"{self.class_name} must override backoff_time().")

    def compute_wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds to wait after ``tries`` attempts; None uses the default backoff."""
        return _get_wait_seconds(self.instance, response, tries)


def _get_wait_seconds(
    instance: Any, response: requests.Response | None, tries: int
) -> float | None:
    seconds = _call_method(instance, "backoff_time", response, tries)
    return None if seconds is None else float(seconds)


def _get_enum_text(value: Any) -> str:
    return str(getattr(value, "value", value))


class CustomPaginationStrategy(Custom):
    """Pagination strategy that calls ``next_page_token(response, …)`` of a connector's class."""

    METHODS: ClassVar[tuple[str, ...]] = ("next_page_token",)

    def __post_init__(self) -> None:
        """Raise ManifestError if ``next_page_token`` has the parameter ``last_records``.

        airbyte-cdk before version 6 passed this parameter; it is not supported.
        """
        super().__post_init__()
        if "last_records" in self._parameter_names:
            raise ManifestError(
                f"{self.class_name}.next_page_token() takes last_records, as before"
                " airbyte-cdk 6: use last_page_size, last_record and last_page_token_value."
            )

    def _get_extra_fields(self) -> Mapping[str, Any]:
        return {"stream_name": str(self.parameters.get("name", ""))}

    @property
    def first_token(self) -> Any:
        """Page token of the first request; None sends the first request without a token."""
        return getattr(self.instance, "initial_token", None)

    @property
    def requested_size(self) -> int | None:
        """Number of records to request per page; None leaves the number to the API."""
        return cast("int | None", _call_method(self.instance, "get_page_size"))

    @cached_property
    def _parameter_names(self) -> frozenset[str]:
        """Names of the parameters of the class's ``next_page_token``."""
        cls: Any = load_class(self.class_name, self.folder)
        return frozenset(inspect.signature(cls.next_page_token).parameters)

    @property
    def takes_page_size(self) -> bool:
        """True if ``next_page_token`` of the class has the parameter ``page_size_override``.

        After a page size reduction, the method is called with the reduced size in this parameter.
        """
        return "page_size_override" in self._parameter_names

    def get_next_token(self, page: Page, token: Any, scope: TemplateScope) -> Any:
        """Return the token of the page after ``page``, or None if ``page`` is the last one.

        ``token`` is the token that was sent in the request for ``page``.
        """
        arguments = {
            "response": page.response,
            "last_page_size": page.selected_count,
            "last_record": page.last_record and CdkRecord(page.last_record),
            "last_page_token_value": token,
        }
        if "stream_slice" in self._parameter_names:
            arguments["stream_slice"] = to_stream_slice(scope)
        if page.reduced_size is not None:
            arguments["page_size_override"] = page.reduced_size
        return self.instance.next_page_token(**arguments)


class CustomRequester(Custom):
    """Requester that delegates to a connector's class derived from airbyte-cdk's HttpRequester.

    The class overrides methods such as ``get_url_base``.
    """

    METHODS: ClassVar[tuple[str, ...]] = ("get_url_base", "get_path", "get_request_params")

    def __post_init__(self) -> None:
        """Raise ManifestError if the class overrides a method that sends requests.

        Also raise it if the class does not derive from HttpRequester.
        """
        super().__post_init__()
        cls = load_class(self.class_name, self.folder)
        overridden = [name for name in _SENDING_METHODS if hasattr(cls, name)]
        if not issubclass(cls, CdkHttpRequester) or overridden:
            problem = f"overrides {overridden[0]}" if overridden else "is not an HttpRequester"
            raise ManifestError(
                f"{self.class_name} {problem}: this SDK sends the requests. Describe them"
                " with get_url_base, get_path, get_request_params, get_request_headers and"
                " get_request_body_json, and retries with an error handler."
            )

    def _get_extra_fields(self) -> Mapping[str, Any]:
        extra_fields: dict[str, Any] = {"name": self._name}
        params: Any = self.fields.get("request_parameters")
        # As in airbyte-cdk, the class itself adds the parameter with the query properties.
        for name in find_property_parameters(params):
            extra_fields["query_properties_key"] = name
            extra_fields["request_parameters"] = {key: params[key] for key in params if key != name}
        return extra_fields

    @cached_property
    def properties(self) -> QueryProperties | None:
        """Query properties (record fields to request from the API); None if none are declared."""
        return get_request_properties(self.fields)

    @property
    def authenticator(self) -> Authenticator | None:
        """Authenticator that signs the requests; None if the manifest declares none."""
        return cast("Authenticator | None", self.fields.get("authenticator"))

    @property
    def error_handler(self) -> ErrorHandler | None:
        """Error handler for the responses; None uses the default error handler."""
        return cast("ErrorHandler | None", self.fields.get("error_handler"))

    @property
    def use_cache(self) -> bool:
        """True if responses are cached until the end of the run."""
        return bool(self.fields.get("use_cache"))

    @property
    def timeout(self) -> None:
        """Always None, because the stream's default connect and read timeouts apply."""

    @property
    def allowed_hosts(self) -> list[str]:
        """Hosts that may receive the credentials, in addition to the host of the base URL."""
        return list(self.fields.get("allowed_hosts") or ())

    @property
    def limits(self) -> Any:
        """Limits of a response: ``(max_response_bytes, max_download_bytes, max_response_seconds)``.

        None means the default limit.
        """
        return tuple(map(self.fields.get, RESPONSE_LIMITS))

    def find_base_url(self, scope: TemplateScope) -> str:
        """Return the base URL, or "" if the connector's class raises an error."""
        try:
            return str(self.instance.get_url_base(**_make_request_arguments(scope)))
        except Exception:  # noqa: BLE001  (custom code may raise any error without a response)
            return ""

    def request(self, scope: TemplateScope) -> RequestSpec:
        """Return a request with the URL, parameters, headers and body of the connector's class.

        The paginator, the partition router and the cursor add their options later.
        """
        self.remember_stream(scope)
        requester, arguments = self.instance, _make_request_arguments(scope)
        base = str(requester.get_url_base(**arguments))
        path = requester.get_path(**arguments)
        document = requester.get_request_body_json(**arguments) or None
        request = RequestSpec(
            url=requester._join_url(base, path),  # noqa: SLF001  (airbyte-cdk's)
            method=_get_enum_text(requester.get_method()),
            params=dict(requester.get_request_params(**arguments) or {}),
            headers=_to_text_headers(requester.get_request_headers(**arguments)),
            data=document or requester.get_request_body_data(**arguments) or None,
            base=base,
        )
        if request.data is not None:
            request.as_json = document is not None
        return request


class CustomPartitionRouter(Custom):
    """Partition router that calls ``stream_slices()`` of a connector's Python class."""

    METHODS: ClassVar[tuple[str, ...]] = ("stream_slices",)

    def generate_contexts(self, stream: DeclarativeStreamProtocol) -> Iterator[Context]:
        """Yield a context (a dict of partition values) for each slice of the connector's class."""
        self.owner.stream = stream
        for stream_slice in self.instance.stream_slices():
            yield to_context(stream_slice)

    def put(self, request: HTTPRequest, scope: TemplateScope) -> None:
        """Add query parameters, headers and body fields of the connector's class to a request."""
        arguments = _make_request_arguments(scope)
        arguments["stream_slice"] = scope.get("stream_slice") or {}
        add_declared_fields(self.instance, request, arguments)


def add_declared_fields(instance: Any, request: HTTPRequest, arguments: Mapping[str, Any]) -> None:
    """Add the query parameters, headers and body fields that a custom class returns to a request.

    The class may define the methods ``get_request_params``, ``get_request_headers``,
    ``get_request_body_data`` and ``get_request_body_json``. ``arguments`` are the keyword arguments
    of each call.
    """
    params, headers, form, document = (
        _get_added_fields(instance, name, arguments) for name in _OPTION_METHODS
    )
    if params:
        request.params = {**request.params, **params}
    if headers:
        request.headers = {**request.headers, **_to_text_headers(headers)}
    if form or document:
        data: Any = request.data
        request.data = merge_objects(data if is_dict(data) else {}, {**form, **document})
        request.as_json = bool(document)


def _get_added_fields(instance: Any, method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    added = _call_method(instance, method, **arguments)
    if not is_mapping(added):
        return {}
    return {name: value for name, value in added.items() if value is not None}


def _to_text_headers(headers: Any) -> dict[str, str]:
    return {name: str(value) for name, value in (headers or {}).items()}


def to_context(stream_slice: Any) -> Context:
    """Convert an airbyte-cdk slice to a context, a dict of partition values.

    An empty ``parent_slice`` is removed.
    """
    return PartitionSlice(
        make_context(stream_slice), extra_fields=getattr(stream_slice, "extra_fields", None)
    )
