"""Requester component: builds the URL, query parameters, headers and body of a stream's requests.

The paginator, the partition router and the cursor add their options to a `RequestSpec`, before
`finalize_request` completes it. Empty template results are not sent.

Source: Airbyte YAML reference, "HttpRequester".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias
from urllib.parse import parse_qs, urljoin, urlsplit

from tap_core.http.request import HTTPRequest
from tap_core.http.url_paths import check_dot_segments
from tap_core.manifest.components.query_properties import (
    PropertiesFromEndpoint,
    QueryProperties,
    get_properties,
)
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import (
    Authenticator,
    Document,
    ErrorHandler,
    InterpolatedText,
    Parameter,
    TemplateScope,
    resolve,
)
from tap_core.manifest.interpolation import Template
from tap_core.manifest.literals import parse_literal
from tap_core.manifest.registry import contains_component
from tap_core.singerlib.json import dump_json

__all__ = [
    "RESPONSE_LIMITS",
    "HttpRequester",
    "RequestBodyGraphQL",
    "RequestBodyJsonObject",
    "RequestBodyPlainText",
    "RequestBodyUrlEncodedForm",
    "RequestPath",
    "RequestSpec",
    "finalize_request",
    "find_property_parameters",
    "get_request_properties",
]

RESPONSE_LIMITS: Final = ("max_response_bytes", "max_download_bytes", "max_response_seconds")
"""Options of a requester that limit the size and the duration of a response."""

_FULL_URL: Final = re.compile(r"https?://", re.IGNORECASE)
_PLAIN_PATH: Final = re.compile(r"[\w-]+(?:/[\w-]+)*/?", re.ASCII)
"""Path that only consists of letters, digits, ``_``, ``-`` and ``/``."""

_Body: TypeAlias = tuple[Any, bool | None]
"""Request body, and True if it is sent as JSON; (None, None) for a request without a body."""


@dataclass(slots=True)
class RequestSpec(HTTPRequest):
    """HTTPRequest of a manifest's stream, with the base URL that the requester declares."""

    base: str = ""
    """Base URL of the request. A page token that is a relative URL is joined to it."""


@dataclass(frozen=True, kw_only=True)
class RequestPath:
    """Pagination option that uses the page token as the URL, or URL path, of the next request."""

    IGNORED: ClassVar[frozenset[str]] = frozenset({"field_name", "inject_into"})

    def put(self, request: HTTPRequest, token: Any) -> None:
        """Set the URL of a request to the page token; join a path to the request's base URL."""
        base = request.base if isinstance(request, RequestSpec) else ""
        request.url = _join_url(base or request.url, str(token))


_Fields: TypeAlias = Annotated[str | Mapping[str, Any] | None, "value", (str, list)]
"""Parameters by name, each like a `Parameter`, or one text for all of them."""


@dataclass(frozen=True, kw_only=True)
class RequestBodyPlainText:
    """Request body of plain text, or of form fields if the text is a Python dict literal."""

    value: Parameter

    def render(self, scope: TemplateScope) -> _Body:
        """Return the rendered text as a request body, and False because it is not JSON.

        The body is UTF-8 bytes, or form fields if the text is a Python dict. For an empty text,
        return (None, None).
        """
        text = resolve(self.value, scope)
        if not text:
            return None, None
        if not isinstance(text, str):
            return dump_json(text).encode(), False
        fields = parse_literal(text)
        return (fields, False) if isinstance(fields, dict) else (text.encode(), False)


@dataclass(frozen=True, kw_only=True)
class RequestBodyUrlEncodedForm:
    """Request body of form fields, sent as ``application/x-www-form-urlencoded``."""

    value: _Fields

    def render(self, scope: TemplateScope) -> _Body:
        """Return the rendered form fields as a request body, and False because it is not JSON.

        Fields with the value None are left out. Empty strings are left out too, unless a single
        template renders all fields. If no field remains, return (None, None).
        """
        fields = _evaluate_fields(self.value, scope)
        return (fields, False) if fields else (None, None)


@dataclass(frozen=True, kw_only=True)
class RequestBodyJsonObject:
    """Request body that is sent as a JSON document.

    Raises:
        ManifestError: The body is a text.
    """

    value: Document

    def __post_init__(self) -> None:
        _check_document(self.value)

    def render(self, scope: TemplateScope) -> _Body:
        """Return the rendered document as a request body, and True because it is JSON.

        Members with the value None or an empty string are left out at all levels, except in an
        object or list that a template returns. For an empty document, return (None, None).

        Raises:
            ManifestError: The body is a text.
        """
        document = _evaluate_document(self.value, scope)
        _check_document(document)
        return (document, True) if document else (None, None)


@dataclass(frozen=True, kw_only=True)
class RequestBodyGraphQL(RequestBodyJsonObject):
    """GraphQL request body: a JSON document with the ``query`` and its variables."""


@dataclass(frozen=True, kw_only=True)
class HttpRequester:
    """Requester that builds HTTP requests from the templates in an Airbyte manifest.

    Raises:
        ManifestError: The URL is missing, a timeout is not above 0, or there are several bodies or
            several lists of query properties.
    """

    url: InterpolatedText | None = None
    url_base: InterpolatedText | None = None
    path: InterpolatedText | None = None
    http_method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    authenticator: Authenticator | None = None
    error_handler: ErrorHandler | None = None
    request_parameters: _Fields | QueryProperties = None
    request_headers: Annotated[str | Mapping[str, Any] | None, "value", (), "document"] = None
    request_body: (
        RequestBodyPlainText
        | RequestBodyUrlEncodedForm
        | RequestBodyJsonObject
        | RequestBodyGraphQL
        | None
    ) = None
    request_body_data: Parameter = None
    request_body_json: Document = None
    query_properties: QueryProperties | None = None
    fetch_properties_from_endpoint: PropertiesFromEndpoint | None = None
    use_cache: bool = False
    connect_timeout_in_seconds: float | None = None
    read_timeout_in_seconds: float | None = None
    allowed_hosts: list[str] = field(default_factory=list)
    max_response_bytes: int | None = None
    max_download_bytes: int | None = None
    max_response_seconds: float | None = None

    IGNORED: ClassVar[frozenset[str]] = frozenset({"description", "name", "use_tcp_keepalive"})

    def __post_init__(self) -> None:
        if self.url is None and self.url_base is None:
            raise ManifestError("A requester needs a `url`.")
        for name in ("connect_timeout_in_seconds", "read_timeout_in_seconds"):
            seconds = getattr(self, name)
            if seconds is not None and seconds <= 0:
                raise ManifestError(f"`{name}` is {seconds:g}, and must be above 0.")
        bodies = [self.request_body, self.request_body_data, self.request_body_json]
        if sum(map(bool, bodies)) > 1:
            raise ManifestError(
                "A request has one body: give one of `request_body`, `request_body_json` and"
                " `request_body_data`."
            )
        lists = [
            *find_property_parameters(self.request_parameters),
            self.fetch_properties_from_endpoint,
        ]
        if sum(map(bool, lists)) > 1:
            raise ManifestError(
                "A request has one list of properties: give one QueryProperties in"
                " `request_parameters`, or `query_properties`."
            )
        _ = self._body  # raises ManifestError for a JSON body that is a text
        body = None if self.request_body is None else self.request_body.value
        values = [self.request_headers, body, *bodies[1:]]
        if contains_component(values, {QueryProperties.__name__}):
            raise ManifestError(
                "QueryProperties cannot be in the body or the headers of a request: declare them as"
                " `query_properties` of the requester, and write"
                " `{{ stream_partition.extra_fields['query_properties'] }}` there."
            )

    @cached_property
    def properties(self) -> QueryProperties | None:
        """Query properties (record fields to request from the API); None if none are declared."""
        return get_request_properties(vars(self))

    @property
    def timeout(self) -> tuple[float | None, float | None] | None:
        """Connect timeout and read timeout in seconds.

        None means the default, either for one timeout or for both.
        """
        limits = self.connect_timeout_in_seconds, self.read_timeout_in_seconds
        return None if limits == (None, None) else limits

    @property
    def limits(self) -> tuple[int | None, int | None, float | None]:
        """Limits of a response: ``(max_response_bytes, max_download_bytes, max_response_seconds)``.

        None instead of a number means the default limit.
        """
        return self.max_response_bytes, self.max_download_bytes, self.max_response_seconds

    def request(self, scope: TemplateScope) -> RequestSpec:
        """Return a request with the URL, parameters, headers and body of this requester.

        The paginator, the partition router and the cursor add their options later.
        """
        base = self.get_base_url(scope)
        data, as_json = (None, None) if self._body is None else self._body.render(scope)
        return RequestSpec(
            url=_join_url(base, _render_url(self.path, scope).lstrip("/")),
            method=self.http_method,
            params=self._render_parameters(scope),
            headers=self._render_headers(scope),
            data=data,
            as_json=as_json,
            base=base,
        )

    def find_base_url(self, scope: TemplateScope) -> str:
        """Return the base URL, or "" if its template needs a response that is not available yet."""
        try:
            return self.get_base_url(scope)
        except Exception:  # noqa: BLE001  (a template may raise any error without a response)
            return ""

    def get_base_url(self, scope: TemplateScope) -> str:
        """Return the rendered option ``url_base``, or ``url`` if ``url_base`` is not set."""
        return _render_url(self.url_base, scope) or _render_url(self.url, scope)

    def _render_parameters(self, scope: TemplateScope) -> dict[str, Any]:
        params = _evaluate_fields(self.request_parameters, scope)
        for name in find_property_parameters(params):
            params[name] = ",".join(get_properties(scope.get("stream_slice")))
        return params

    def _render_headers(self, scope: TemplateScope) -> dict[str, str]:
        headers = _evaluate_fields(self.request_headers, scope)
        return {name: str(value) for name, value in headers.items()}

    @cached_property
    def _body(
        self,
    ) -> RequestBodyPlainText | RequestBodyUrlEncodedForm | RequestBodyJsonObject | None:
        """Component that renders the request body; None if the manifest sets no body option."""
        if self.request_body_json:
            return RequestBodyJsonObject(value=self.request_body_json)
        if isinstance(self.request_body_data, Mapping):
            return RequestBodyUrlEncodedForm(value=self.request_body_data)
        if self.request_body_data:
            return RequestBodyPlainText(value=self.request_body_data)
        return self.request_body


def finalize_request(request: HTTPRequest) -> HTTPRequest:
    """Remove redundant parts of a request before it is sent, in place, and return the request.

    A query parameter that the URL already contains with the same value is removed. An empty body
    becomes None.

    Raises:
        ManifestError: The value of a query parameter is an object.
    """
    for name, value in (request.params or {}).items():
        if isinstance(value, Mapping):
            raise ManifestError(
                f"The query parameter '{name}' is an object: pass its members as separate"
                " parameters, or the object as a string."
            )
    query = urlsplit(request.url).query if "?" in request.url else ""
    if query and request.params:
        in_url = {name: values[0] for name, values in parse_qs(query).items()}
        request.params = {
            name: value for name, value in request.params.items() if in_url.get(name) != str(value)
        }
    if not request.data:
        request.data = None
        request.as_json = None
    return request


def find_property_parameters(params: Any) -> list[str]:
    """Return the names of the query parameters that list the record fields to request.

    The value of such a parameter in ``params`` is a QueryProperties component.
    """
    if not isinstance(params, Mapping):
        return []
    return [name for name, value in params.items() if isinstance(value, QueryProperties)]


def get_request_properties(fields: Mapping[str, Any]) -> QueryProperties | None:
    """Return the list of record fields that the API shall return; None if no option declares one.

    ``fields`` maps the names of a requester's options to their values.
    """
    if names := find_property_parameters(fields.get("request_parameters")):
        properties: QueryProperties = fields["request_parameters"][names[0]]
        return properties
    endpoint: PropertiesFromEndpoint | None = fields.get("fetch_properties_from_endpoint")
    return fields.get("query_properties") if endpoint is None else QueryProperties(endpoint)


def _render_url(option: InterpolatedText | None, scope: TemplateScope) -> str:
    """Render an option that is a URL or a path.

    Raises:
        FatalAPIError: A value in the path is or contains a segment ``.`` or ``..``.
    """
    url = str(resolve(option or "", scope))
    template: Template | None = getattr(option, "template", None)
    if template is None or (_FULL_URL.match(url) and not _FULL_URL.match(template.text)):
        return url
    check_dot_segments(f"/{template.text}", f"/{url}")
    return url


def _join_url(base: str, path: str) -> str:
    """Join a path to a base URL; if ``path`` is a full URL, return it unchanged."""
    if not path:
        return base
    folder = base if base.endswith("/") else f"{base}/"
    if _PLAIN_PATH.fullmatch(path) and _can_append_path(folder):
        return folder + path
    return urljoin(folder, path)


@lru_cache(maxsize=256)
def _can_append_path(folder: str) -> bool:
    """Return True if `urljoin` appends a relative path to ``folder``, a URL that ends in a slash.

    The caller then appends simple paths itself, which is faster.
    """
    return urljoin(folder, "a/b") == f"{folder}a/b"


def _evaluate_fields(fields: Any, scope: TemplateScope) -> dict[str, Any]:
    """Render query parameters, headers or form fields, and return them as a dict.

    ``fields`` is a mapping of templates, or one template that renders as a mapping. Results that
    are None are omitted; in a mapping of templates, empty strings are omitted too.
    """
    if isinstance(fields, dict):
        return {
            str(resolve(name, scope)): value
            for name, template in fields.items()
            if (value := resolve(template, scope)) is not None and value != ""
        }
    mapping = resolve(fields, scope)
    if isinstance(mapping, str):
        mapping = parse_literal(mapping)
    if not isinstance(mapping, Mapping):
        return {}
    return {str(name): value for name, value in mapping.items() if value is not None}


def _check_document(document: Any) -> None:
    if document and isinstance(document, str):
        raise ManifestError(
            "The JSON body of a request is a text, not an object: declare a mapping, or write"
            " a Python dict, which has None, True and False for null, true and false."
        )


def _evaluate_document(document: Any, scope: TemplateScope) -> Any:
    """Render all templates in a JSON document.

    Members of mappings with the value None or an empty string are omitted at all levels.
    """
    if callable(document):
        value = document(scope)
        return None if value == "" else value
    if isinstance(document, dict):
        return {
            resolve(name, scope): value
            for name, template in document.items()
            if (value := _evaluate_document(template, scope)) is not None
        }
    if isinstance(document, list):
        return [_evaluate_document(template, scope) for template in document]
    return None if document == "" else document
