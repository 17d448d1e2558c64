"""Components that are Python classes beside the manifest, written for airbyte-cdk.

Rules of the room: a class of others is made when it is first needed, with those of its fields
that the manifest gives; from then on it is asked in airbyte-cdk's words and answers in this
package's. What cannot be done soundly is refused when the manifest is read, with the way out.
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
from tap_core.manifest.cdk_compat.error_handlers import CdkBackoffStrategy as FaceBackoff
from tap_core.manifest.cdk_compat.import_hook import load_class
from tap_core.manifest.cdk_compat.models import CdkStreamSlice
from tap_core.manifest.cdk_compat.models import Record as FaceRecord
from tap_core.manifest.cdk_compat.partition_routers import StreamOwner
from tap_core.manifest.cdk_compat.requesters import CdkHttpRequester as FaceRequester
from tap_core.manifest.cdk_compat.state_migrations import CdkState
from tap_core.manifest.cdk_compat.type_guards import is_dict, is_mapping
from tap_core.manifest.components.error_handlers import DefaultErrorHandler
from tap_core.manifest.components.partition_routers import PARENT_SLICE, PartitionSlice
from tap_core.manifest.components.query_properties import QueryProperties
from tap_core.manifest.components.requester import (
    ANSWER_LIMITS,
    RequestSpec,
    as_list,
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

_turn: Final = threading.RLock()
_NO_STATE: Final[Mapping[str, Any]] = {}


def _nothing() -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, kw_only=True)
class Custom:
    """What all have in common: a class, and the fields that the manifest gives it."""

    class_name: str
    fields: Mapping[str, Any] = field(default_factory=_nothing)
    """Components that stand there are made, everything else is as it stands."""
    parameters: Mapping[str, Any] = field(default_factory=_nothing)
    config: Mapping[str, Any] = field(default_factory=_nothing)
    folder: Path = field(default_factory=Path)
    place: str = field(default="", compare=False)

    METHODS: ClassVar[tuple[str, ...]] = ()
    """What the class has to have."""

    def __post_init__(self) -> None:
        """Refuse a class that is not there, or is something else."""
        cls = load_class(self.class_name, self.folder)
        for method in self.METHODS:
            if not callable(getattr(cls, method, None)):
                raise ManifestError(
                    f"{self.class_name} has no method {method}(), which a"
                    f" {type(self).__name__} has."
                )

    @cached_property
    def instance(self) -> Any:
        """The object of the class, one for all threads.

        Raises:
            ManifestError: it cannot be made.
        """
        with _turn:
            known = self.__dict__.get("instance")
            return self._made() if known is None else known

    @cached_property
    def owner(self) -> StreamOwner:
        """The stream that it works for."""
        return StreamOwner()

    @cached_property
    def _streams(self) -> list[str]:
        return []

    def told(self, scope: TemplateScope) -> None:
        """Take the name of the stream, which a class may ask for."""
        if not self._streams and (name := scope.get("stream_name")):
            self._streams.append(str(name))

    @property
    def _name(self) -> str:
        """The name of the stream, as far as it is known."""
        return self._streams[0] if self._streams else str(self.parameters.get("name", ""))

    def _more(self) -> Mapping[str, Any]:
        """Return fields that it is given whatever the manifest says."""
        return {}

    def _made(self) -> Any:
        cls = load_class(self.class_name, self.folder)
        given = {
            **cast("dict[str, Any]", adapt(self.fields, self.owner, self.config)),
            "config": self.config,
            "parameters": dict(self.parameters),
            **self._more(),
        }
        names = {name for base in cls.__mro__ for name in vars(base).get("__annotations__", ())}
        try:
            return cls(**{name: value for name, value in given.items() if name in names})
        except ManifestError:
            raise
        except TypeError as error:  # it names fields, and never what is in them
            raise ManifestError(f"{self.place}: {self.class_name}: {error}") from error
        except Exception as error:  # whatever a constructor of others raises
            raise ManifestError(
                f"{self.place}: {self.class_name} cannot be made: {_told(error)}"
            ) from error


def _told(error: Exception) -> str:
    """Say an error without what its text may hold of the settings."""
    frames = inspect.getinnerframes(error.__traceback__) if error.__traceback__ else []
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{where}"


def _asked(scope: TemplateScope) -> dict[str, Any]:
    """Return what methods that say a request are given."""
    return {
        "stream_state": scope.get("stream_state", _NO_STATE),
        "stream_slice": to_stream_slice(scope),
        "next_page_token": scope.get("next_page_token"),
    }


# Records


class CustomRecordExtractor(Custom):
    """Finds the records of an answer, by ``extract_records(response)``."""

    METHODS: ClassVar[tuple[str, ...]] = ("extract_records",)

    @cached_property
    def _known(self) -> dict[str, Any]:
        return {}

    def whole(self, decoder: Decoder) -> Any:
        """Return what stands for a decoder: it reads answers itself, with this one's help."""
        self._known["decoder"] = decoder
        return _undecoded

    def _more(self) -> Mapping[str, Any]:
        return self._known

    def extract(self, document: Any, scope: TemplateScope) -> Iterable[Any]:
        """Return the records of an answer; it is the answer that stands for its document."""
        return cast("Iterable[Any]", self.instance.extract_records(document) or ())


def _undecoded(response: requests.Response) -> Iterator[Any]:
    return iter((response,))


class CustomRecordFilter(Custom):
    """Says which records stay, by ``filter_records(records, …)``."""

    METHODS: ClassVar[tuple[str, ...]] = ("filter_records",)

    def keeps(self, record: Record, scope: TemplateScope) -> bool:
        """Return whether a record stays."""
        kept = self.instance.filter_records([record], **_asked(scope))
        return any(True for _ in kept)


class CustomTransformation(Custom):
    """Changes records, by ``transform(record, …)``."""

    METHODS: ClassVar[tuple[str, ...]] = ("transform",)

    @cached_property
    def transform(self) -> Any:
        """Change a record in place."""
        change = partial(self.instance.transform, config=self.config, stream_state=_NO_STATE)
        last: list[tuple[Any, CdkStreamSlice]] = []

        def transform(record: Record, scope: TemplateScope) -> None:
            given = scope.get("stream_slice")
            known = last[0] if last else None
            if known is None or known[0] is not given:
                known = (given, to_stream_slice(scope))
                last[:] = [known]
            change(record, stream_slice=known[1])

        return transform


class CustomSchemaNormalization(Custom):
    """Converts the values of records, by ``transform(record, schema)``."""

    METHODS: ClassVar[tuple[str, ...]] = ("transform",)

    def transform(self, record: Record, schema: Mapping[str, Any]) -> None:
        """Change a record in place."""
        self.instance.transform(record, schema)


class CustomDecoder(Custom):
    """Reads the documents of an answer, by ``decode(response)``."""

    METHODS: ClassVar[tuple[str, ...]] = ("decode",)

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Return the documents of an answer."""
        return iter(self.instance.decode(response))


class CustomSchemaLoader(Custom):
    """Gives the schema of a stream, by ``get_json_schema()``."""

    METHODS: ClassVar[tuple[str, ...]] = ("get_json_schema",)

    def json_schema(self, stream: DeclarativeStreamProtocol) -> JsonSchema:
        """Return the schema of a record."""
        self.owner.stream = stream
        return cast("JsonSchema", self.instance.get_json_schema())


class CustomStateMigration(Custom):
    """Brings a state to its present form, by ``should_migrate`` and ``migrate``."""

    METHODS: ClassVar[tuple[str, ...]] = ("should_migrate", "migrate")

    @cached_property
    def _known(self) -> dict[str, Any]:
        return {}

    def of(self, stream: Mapping[str, Any]) -> None:
        """Take what the manifest says of the stream, which a class may ask for."""
        self._known["declarative_stream"] = CdkState(stream)

    def _more(self) -> Mapping[str, Any]:
        return self._known

    def should_migrate(self, stream_state: Mapping[str, Any]) -> bool:
        """Return whether a state is of an older form."""
        return bool(self.instance.should_migrate(stream_state))

    def migrate(self, stream_state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return it in its present form."""
        return cast("Mapping[str, Any]", self.instance.migrate(stream_state))


# Requests


class CustomAuthenticator(Custom):
    """Puts credentials on a request: called with it, or by ``get_auth_header()``."""

    METHODS: ClassVar[tuple[str, ...]] = ("__call__",)

    def auth(self, stream: DeclarativeStreamProtocol) -> Auth:
        """Return what puts credentials on a request."""
        self.owner.stream = stream
        return self._signed

    def _signed(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        asked = self.instance
        signed: Any = asked(request) or request
        if params := _call_method(asked, "get_request_params"):
            signed.prepare_url(signed.url, params)
        if form := _call_method(asked, "get_request_body_data"):
            signed.prepare_body(form, None)
        if document := _call_method(asked, "get_request_body_json"):
            signed.prepare_body(None, None, document)
        signed.prepare_content_length(signed.body)  # a signature may have changed the body
        return cast("requests.PreparedRequest", signed)


def _call_method(instance: Any, method: str) -> Any:
    """Return what a method gives, nothing where there is none."""
    found = getattr(instance, method, None)
    return found() if callable(found) else None


class CustomErrorHandler(Custom):
    """Judges answers, by ``interpret_response`` and ``backoff_time``."""

    METHODS: ClassVar[tuple[str, ...]] = ("interpret_response",)

    @property
    def max_tries(self) -> int:
        """How often a request is sent."""
        retries = getattr(self.instance, "max_retries", None)
        return DefaultErrorHandler().max_tries if retries is None else 1 + max(0, int(retries))

    @property
    def max_seconds(self) -> float | None:
        """For how long a request is tried."""
        seconds = getattr(self.instance, "max_time", None)
        return None if seconds is None else float(seconds)

    def judge(self, response: requests.Response, scope: TemplateScope) -> ResponseResolution | None:
        """Return what is to be done about an answer."""
        found = self.instance.interpret_response(response)
        if found is None or found.response_action is None:
            return None
        kind = found.failure_type
        return ResponseResolution(
            ResponseAction(_word(found.response_action)),
            found.error_message,
            None if kind is None else _word(kind),
        )

    def wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds before the next try."""
        return _seconds(self.instance, response, tries)


class CustomBackoffStrategy(Custom):
    """Says how long to wait, by ``backoff_time(response, tries)``."""

    METHODS: ClassVar[tuple[str, ...]] = ("backoff_time",)

    def __post_init__(self) -> None:
        """Refuse one that says nothing of its own; older classes have ``backoff``."""
        super().__post_init__()
        cls: Any = load_class(self.class_name, self.folder)
        if cls.backoff_time is FaceBackoff.backoff_time and not hasattr(cls, "backoff"):
            raise ManifestError(f"{self.class_name} has no method backoff_time() of its own.")

    def wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds before the next try."""
        return _seconds(self.instance, response, tries)


def _seconds(instance: Any, response: requests.Response | None, tries: int) -> float | None:
    wait = getattr(instance, "backoff_time", None)
    found = wait(response, tries) if callable(wait) else None
    return None if found is None else float(cast("float", found))


def _word(value: Any) -> str:
    return str(getattr(value, "value", value))


class CustomPaginationStrategy(Custom):
    """Says which page comes next, by ``next_page_token(response, …)``."""

    METHODS: ClassVar[tuple[str, ...]] = ("next_page_token",)

    def __post_init__(self) -> None:
        """Refuse one that asks for all records of a page."""
        super().__post_init__()
        cls = load_class(self.class_name, self.folder)
        if "last_records" in inspect.signature(cls.next_page_token).parameters:  # type: ignore[attr-defined]
            raise ManifestError(
                f"{self.class_name}.next_page_token() asks for last_records, as it was before"
                " airbyte-cdk 6: take last_page_size, last_record and last_page_token_value."
            )

    def _more(self) -> Mapping[str, Any]:
        return {"stream_name": str(self.parameters.get("name", ""))}

    @property
    def first_token(self) -> Any:
        """The token of the first request, None for none."""
        return getattr(self.instance, "initial_token", None)

    @property
    def requested_size(self) -> int | None:
        """How many records a page is asked to have."""
        return cast("int | None", _call_method(self.instance, "get_page_size"))

    @cached_property
    def _takes(self) -> frozenset[str]:
        return frozenset(inspect.signature(self.instance.next_page_token).parameters)

    @property
    def takes_page_size(self) -> bool:
        """Whether it is told how many records a page was to have."""
        cls: Any = load_class(self.class_name, self.folder)
        return "page_size_override" in inspect.signature(cls.next_page_token).parameters

    def token_after(self, page: Page, token: Any, scope: TemplateScope) -> Any:
        """Return the next token, None after the last page."""
        given = {
            "response": page.response,
            "last_page_size": page.kept,
            "last_record": page.last_record and FaceRecord(page.last_record),
            "last_page_token_value": token,
        }
        if "stream_slice" in self._takes:
            given["stream_slice"] = to_stream_slice(scope)
        if page.asked_for is not None:
            given["page_size_override"] = page.asked_for
        return self.instance.next_page_token(**given)


_SENDS: Final = ("send_request", "_request_params", "_request_headers", "_http_client")


class CustomRequester(Custom):
    """Says what is asked for, by ``get_url_base``, ``get_request_params`` and their like."""

    METHODS: ClassVar[tuple[str, ...]] = ("get_url_base", "get_path", "get_request_params")

    def __post_init__(self) -> None:
        """Refuse one that sends requests itself."""
        super().__post_init__()
        cls = load_class(self.class_name, self.folder)
        own = [name for name in _SENDS if hasattr(cls, name)]
        if not issubclass(cls, FaceRequester) or own:
            what = f"overrides {own[0]}" if own else "is no HttpRequester"
            raise ManifestError(
                f"{self.class_name} {what}: requests are sent by this SDK. Say what is asked for"
                " with get_url_base, get_path, get_request_params, get_request_headers and"
                " get_request_body_json, and how to try again with an error handler."
            )

    def _more(self) -> Mapping[str, Any]:
        more: dict[str, Any] = {"name": self._name}
        params: Any = self.fields.get("request_parameters")
        for name in as_list(params):  # its class puts them there, as airbyte-cdk's do
            more["query_properties_key"] = name
            more["request_parameters"] = {key: params[key] for key in params if key != name}
        return more

    @cached_property
    def properties(self) -> QueryProperties | None:
        """Which properties are asked for, where something says so."""
        return get_request_properties(self.fields)

    @property
    def authenticator(self) -> Authenticator | None:
        """What puts credentials on its requests."""
        return cast("Authenticator | None", self.fields.get("authenticator"))

    @property
    def error_handler(self) -> ErrorHandler | None:
        """What judges the answers."""
        return cast("ErrorHandler | None", self.fields.get("error_handler"))

    @property
    def use_cache(self) -> bool:
        """Whether answers are kept for the run."""
        return bool(self.fields.get("use_cache"))

    @property
    def timeout(self) -> None:
        """As usual."""

    @property
    def allowed_hosts(self) -> list[str]:
        """Other hosts that may get the credentials of its requests."""
        return list(self.fields.get("allowed_hosts") or ())

    @property
    def limits(self) -> Any:
        """Limits of an answer, as `HttpRequester.limits`."""
        return tuple(map(self.fields.get, ANSWER_LIMITS))

    def home(self, scope: TemplateScope) -> str:
        """Return the base URL in a scope without answers, nothing where it needs one."""
        try:
            return str(self.instance.get_url_base(**_asked(scope)))
        except Exception:  # noqa: BLE001  whatever code of others raises that misses something
            return ""

    def request(self, scope: TemplateScope) -> RequestSpec:
        """Return the request in a scope; pages, slices and windows add to it."""
        self.told(scope)
        asked, about = self.instance, _asked(scope)
        base = str(asked.get_url_base(**about))
        document = asked.get_request_body_json(**about) or None
        made = RequestSpec(
            url=asked._join_url(base, asked.get_path(**about)),  # noqa: SLF001  (airbyte-cdk's)
            method=_word(asked.get_method()),
            params=dict(asked.get_request_params(**about) or {}),
            headers=_texts(asked.get_request_headers(**about)),
            data=document or asked.get_request_body_data(**about) or None,
            base=base,
        )
        if made.data is not None:
            made.as_json = document is not None
        return made


class CustomPartitionRouter(Custom):
    """Gives the slices of a stream, by ``stream_slices()``."""

    METHODS: ClassVar[tuple[str, ...]] = ("stream_slices",)

    def contexts(self, stream: DeclarativeStreamProtocol) -> Iterator[Context]:
        """Yield the contexts of the slices."""
        self.owner.stream = stream
        for one in self.instance.stream_slices():
            yield to_context(one)

    def put(self, request: HTTPRequest, scope: TemplateScope) -> None:
        """Add what the router says of a slice."""
        about = _asked(scope)
        about["stream_slice"] = scope.get("stream_slice") or {}
        add_declared_fields(self.instance, request, about)


def add_declared_fields(asked: Any, request: HTTPRequest, about: Mapping[str, Any]) -> None:
    """Add to a request what an object says of a slice, method by method."""
    params, headers, form, document = (_added(asked, name, about) for name in _ADDS)
    if params:
        request.params = {**request.params, **params}
    if headers:
        request.headers = {**request.headers, **_texts(headers)}
    if form or document:
        known: Any = request.data
        request.data = _joined(known if is_dict(known) else {}, {**form, **document})
        request.as_json = bool(document)


def _added(asked: Any, method: str, about: Mapping[str, Any]) -> dict[str, Any]:
    found = getattr(asked, method, None)
    added = found(**about) if callable(found) else None
    given: Mapping[str, Any] = added if is_mapping(added) else {}
    return {name: value for name, value in given.items() if value is not None}


def _joined(known: dict[Any, Any], added: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return a document with more members; an object that both have is joined the same way."""
    made = dict(known)
    for name, value in added.items():
        old = made.get(name)
        made[name] = _joined(old, value) if is_dict(old) and is_dict(value) else value
    return made


def _texts(headers: Any) -> dict[str, str]:
    known: Mapping[str, Any] = headers or {}
    return {name: str(value) for name, value in known.items()}


_ADDS: Final = (
    "get_request_params",
    "get_request_headers",
    "get_request_body_data",
    "get_request_body_json",
)


def to_context(given: Any) -> Context:
    """Return a slice of others as a context: a parent without slices leaves nothing to say."""
    found = PartitionSlice(_known(given), extra_fields=getattr(given, "extra_fields", None))
    above = found.get(PARENT_SLICE)
    if isinstance(above, Mapping):
        found[PARENT_SLICE] = _known(cast("Mapping[str, Any]", above))
    if not found.get(PARENT_SLICE, True):
        del found[PARENT_SLICE]
    return found


def _known(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name != PARENT_SLICE or value}
