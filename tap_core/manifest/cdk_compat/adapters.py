"""Adapters that pass this SDK's components to custom Python components of Airbyte manifests.

A custom component is a class written for airbyte-cdk; it receives its nested components as field
values. `adapt` wraps each nested component in an adapter with airbyte-cdk's interface, selected by
the component's type or methods. A nested custom component is passed as the instance of its Python
class.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias, cast

import requests
from requests.auth import AuthBase

from tap_core.http.request import Auth
from tap_core.incremental import cursor, request_options
from tap_core.manifest.cdk_compat.cursors import CdkMinMaxDatetime
from tap_core.manifest.cdk_compat.error_handlers import (
    CdkBackoffStrategy,
    CdkHttpResponseFilter,
    to_resolution,
)
from tap_core.manifest.cdk_compat.models import CdkStreamSlice, RequestOptionType
from tap_core.manifest.cdk_compat.partition_routers import (
    CdkParentStreamConfig,
    CdkStream,
    StreamOwner,
)
from tap_core.manifest.cdk_compat.records import (
    CdkAddedFieldDefinition,
    CdkJsonDecoder,
    RecordExtractor,
)
from tap_core.manifest.cdk_compat.requesters import CdkRequestOption
from tap_core.manifest.cdk_compat.schema_loaders import (
    CdkInlineSchemaLoader,
    CdkJsonFileSchemaLoader,
)
from tap_core.manifest.cdk_compat.type_guards import is_list, is_mapping
from tap_core.manifest.components import error_handlers as our_errors
from tap_core.manifest.components import partition_routers, schema_loaders, transformations
from tap_core.manifest.components.extractors import SKIPPED_RECORD, extract_records
from tap_core.manifest.interfaces import TemplateScope
from tap_core.manifest.interpolation import BoundTemplate

__all__ = ["adapt", "to_stream_slice"]

_STREAMS = frozenset({"DeclarativeStream", "StateDelegatingStream"})


def adapt(value: Any, owner: StreamOwner, config: Mapping[str, Any]) -> Any:
    """Return a value in which adapters for airbyte-cdk's interfaces replace all components.

    Lists and mappings are converted recursively, a declared stream becomes a `CdkStream`, and any
    other value is returned unchanged.

    Args:
        value: A component, a list or mapping of components, or any other value.
        owner: Reference to the current stream, for reading parent streams.
        config: The connector's config.
    """
    if is_mapping(value):
        if value.get("type") in _STREAMS:
            return CdkStream(owner, value)
        return {name: adapt(item, owner, config) for name, item in value.items()}
    if is_list(value):
        return [adapt(item, owner, config) for item in value]
    if hasattr(value, "instance"):  # a custom component
        return value.instance
    factories = (
        *(factory for kind, factory in _FACTORIES_BY_TYPE if isinstance(value, kind)),
        *(factory for method, factory in _FACTORIES_BY_METHOD if hasattr(value, method)),
    )
    return factories[0](value, owner, config) if factories else value


def to_stream_slice(scope: TemplateScope) -> CdkStreamSlice:
    """Return the slice in the template variables ``scope`` as airbyte-cdk's StreamSlice.

    The variable ``partition`` becomes the slice's partition, and all other items of the variable
    ``stream_slice`` become its cursor slice.
    """
    stream_slice: Any = scope.get("stream_slice")
    if stream_slice is None:  # an empty slice may have extra fields
        stream_slice = {}
    partition: Mapping[str, Any] = scope.get("partition") or {}
    return CdkStreamSlice(
        partition=partition,
        cursor_slice={name: value for name, value in stream_slice.items() if name not in partition},
        extra_fields=getattr(stream_slice, "extra_fields", {}),
    )


def _adapt_option(option: request_options.RequestOption, *_: Any) -> CdkRequestOption:
    return CdkRequestOption(
        inject_into=RequestOptionType(option.inject_into),
        field_name=option.field_name,
        field_path=option.field_path,
        parameters={},
    )


def _adapt_min_max(declared: cursor.MinMaxDatetime, *_: Any) -> CdkMinMaxDatetime:
    return CdkMinMaxDatetime(
        datetime=declared.datetime,
        parameters={},
        datetime_format=declared.datetime_format,
        min_datetime=declared.min_datetime,
        max_datetime=declared.max_datetime,
    )


def _adapt_parent(
    parent: partition_routers.ParentStreamConfig, owner: StreamOwner, config: Mapping[str, Any]
) -> CdkParentStreamConfig:
    return CdkParentStreamConfig(
        stream=CdkStream(owner, parent.stream),
        parent_key=parent.parent_key,
        partition_field=parent.partition_field,
        config=config,
        parameters={},
        extra_fields=parent.extra_fields,
        request_option=parent.request_option and _adapt_option(parent.request_option),
        incremental_dependency=parent.incremental_dependency,
        lazy_read_pointer=parent.lazy_read_pointer,
    )


def _adapt_inline_schema(
    loader: schema_loaders.InlineSchemaLoader, *_: Any
) -> CdkInlineSchemaLoader:
    return CdkInlineSchemaLoader(schema=loader.schema or {}, parameters={})


def _adapt_schema_file(
    loader: schema_loaders.JsonFileSchemaLoader, _owner: StreamOwner, config: Mapping[str, Any]
) -> CdkJsonFileSchemaLoader:
    folder = CdkJsonFileSchemaLoader.within(loader.folder)
    return folder(config=config, parameters={}, file_path=loader.file_path)


def _adapt_added_field(
    added: transformations.AddedFieldDefinition, *_: Any
) -> CdkAddedFieldDefinition:
    value = added.value.template.text if isinstance(added.value, BoundTemplate) else added.value
    return CdkAddedFieldDefinition(added.path, value, added.value_type, {})


def _adapt_response_filter(
    response_filter: our_errors.HttpResponseFilter, _owner: StreamOwner, config: Mapping[str, Any]
) -> CdkHttpResponseFilter:
    return CdkHttpResponseFilter(response_filter, config)


class _ExtractorAdapter(RecordExtractor):
    """Adapter from this SDK's record extractors to airbyte-cdk's interface RecordExtractor.

    Response bodies must be JSON.
    """

    def __init__(self, inner: Any, *_: Any) -> None:
        self._inner = inner

    def extract_records(self, response: requests.Response) -> Iterator[Any]:
        for record in extract_records(self._inner, response, CdkJsonDecoder()):
            if record is not SKIPPED_RECORD:
                yield record


class _BackoffAdapter(CdkBackoffStrategy):
    """Adapter from this SDK's backoff strategies to airbyte-cdk's interface BackoffStrategy."""

    def __init__(self, inner: Any, _owner: StreamOwner, config: Mapping[str, Any]) -> None:
        self._inner = inner
        self._config = config

    def backoff_time(self, response_or_exception: Any, attempt_count: int) -> float | None:
        """Return the seconds to wait before a request is sent again; None uses the default backoff.

        ``attempt_count`` is the number of attempts so far.
        """
        response = None if isinstance(response_or_exception, Exception) else response_or_exception
        seconds = self._inner.compute_wait(response, attempt_count, {"config": self._config})
        return cast("float | None", seconds)


class _ErrorHandlerAdapter(_BackoffAdapter):
    """Adapter from this SDK's error handlers to airbyte-cdk's interface ErrorHandler.

    Custom code may set additional attributes on the adapter.
    """

    @property
    def max_retries(self) -> int:
        """Maximum number of retries per request, not counting the first attempt."""
        return int(self._inner.max_tries) - 1

    def interpret_response(self, response_or_exception: Any) -> Any:
        """Return the error handler's decision on a response or on the exception of a request.

        The decision is airbyte-cdk's ErrorResolution: an action, a failure type and a message.
        """
        return to_resolution(self._inner.interpret(response_or_exception, {"config": self._config}))


class _AuthenticatorAdapter(AuthBase):
    """Adapter from this SDK's authenticators to the interface ``requests.auth.AuthBase``.

    All requests and threads share one signing function, and so its access token.
    """

    def __init__(self, inner: Any, owner: StreamOwner, config: Mapping[str, Any]) -> None:
        self._inner = inner
        self._owner = owner
        self._sign: Auth | None = None
        self._lock = threading.Lock()
        self.config: Mapping[str, Any] = config

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        with self._lock:
            sign = self._sign = self._sign or self._inner.auth(self._owner.stream)
        return sign(request)


_Factory: TypeAlias = Callable[[Any, StreamOwner, Mapping[str, Any]], Any]

_FACTORIES_BY_TYPE: Final[tuple[tuple[type, _Factory], ...]] = (
    (partition_routers.ParentStreamConfig, _adapt_parent),
    (transformations.AddedFieldDefinition, _adapt_added_field),
    (request_options.RequestOption, _adapt_option),
    (cursor.MinMaxDatetime, _adapt_min_max),
    (schema_loaders.InlineSchemaLoader, _adapt_inline_schema),
    (schema_loaders.JsonFileSchemaLoader, _adapt_schema_file),
    (our_errors.HttpResponseFilter, _adapt_response_filter),
)
"""Functions that create an adapter, by the type of the component."""

_FACTORIES_BY_METHOD: Final[tuple[tuple[str, _Factory], ...]] = (
    ("extract", _ExtractorAdapter),
    ("auth", _AuthenticatorAdapter),
    ("interpret", _ErrorHandlerAdapter),
    ("compute_wait", _BackoffAdapter),
)
"""Functions that create an adapter, by a method of the component; the first match is used."""
