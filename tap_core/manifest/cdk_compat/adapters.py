"""Adapters that give custom components this package's components in airbyte-cdk's interface.

A custom component receives them as the values of its fields. The adapter is chosen by the methods
that a component has; a custom component is passed as its own airbyte-cdk instance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

import requests
from requests.auth import AuthBase

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
from tap_core.manifest.cdk_compat.type_guards import is_list, is_mapping
from tap_core.manifest.components import error_handlers as our_errors
from tap_core.manifest.components import partition_routers, transformations
from tap_core.manifest.interfaces import TemplateScope
from tap_core.manifest.interpolation import BoundTemplate

__all__ = ["adapt", "to_stream_slice"]

_STREAMS = frozenset({"DeclarativeStream", "StateDelegatingStream"})


def adapt(value: Any, owner: StreamOwner, config: Mapping[str, Any]) -> Any:
    """Return an adapter with airbyte-cdk's interface for a component.

    In a list or mapping, each component is replaced by its adapter. Any other value is returned
    unchanged.

    Args:
        value: A component, a list or mapping of components, or any other value.
        owner: Reference to the current stream, for reading parent streams.
        config: The connector's config.
    """
    if is_mapping(value):
        if value.get("type") in _STREAMS:
            return CdkStream(owner, value)
        return {name: adapt(one, owner, config) for name, one in value.items()}
    if is_list(value):
        return [adapt(one, owner, config) for one in value]
    for is_match, make_adapter in _ADAPTERS:
        if is_match(value):
            return make_adapter(value, owner, config)
    return value


def to_stream_slice(scope: TemplateScope) -> CdkStreamSlice:
    """Return the ``stream_slice`` of the template variables as airbyte-cdk's StreamSlice."""
    given = scope.get("stream_slice")
    known: Mapping[str, Any] = {} if given is None else given  # it may have extra fields
    partition: Mapping[str, Any] = scope.get("partition") or {}
    return CdkStreamSlice(
        partition=partition,
        cursor_slice={name: value for name, value in known.items() if name not in partition},
        extra_fields=getattr(known, "extra_fields", {}),
    )


def _adapt_option(option: request_options.RequestOption) -> CdkRequestOption:
    return CdkRequestOption(
        inject_into=RequestOptionType(option.inject_into),
        field_name=option.field_name,
        field_path=option.field_path,
        parameters={},
    )


def _adapt_min_max(given: cursor.MinMaxDatetime) -> CdkMinMaxDatetime:
    return CdkMinMaxDatetime(
        datetime=given.datetime,
        parameters={},
        datetime_format=given.datetime_format,
        min_datetime=given.min_datetime,
        max_datetime=given.max_datetime,
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


def _adapt_added_field(one: transformations.AddedFieldDefinition) -> CdkAddedFieldDefinition:
    value = one.value.template.text if isinstance(one.value, BoundTemplate) else one.value
    return CdkAddedFieldDefinition(one.path, value, one.value_type, {})


class _ExtractorAdapter(RecordExtractor):
    """Adapter with airbyte-cdk's RecordExtractor interface for a record extractor of this SDK.

    Response bodies must be JSON.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def extract_records(self, response: requests.Response) -> Iterator[Any]:
        """Yield the records that the wrapped extractor finds in a JSON response."""
        for document in CdkJsonDecoder().decode(response):
            yield from self._inner.extract(document, {})


class _BackoffAdapter(CdkBackoffStrategy):
    """Adapter with airbyte-cdk's BackoffStrategy interface for a backoff strategy of this SDK."""

    def __init__(self, inner: Any, config: Mapping[str, Any]) -> None:
        self._inner = inner
        self._config = config

    def backoff_time(self, response_or_exception: Any, attempt_count: int) -> float | None:
        """Return the wait in seconds after attempt number ``attempt_count``.

        Return None to use the default wait.
        """
        answer = None if isinstance(response_or_exception, Exception) else response_or_exception
        found = self._inner.compute_wait(answer, attempt_count, {"config": self._config})
        return cast("float | None", found)


class _ErrorHandlerAdapter(_BackoffAdapter):
    """Adapter with airbyte-cdk's ErrorHandler interface for an error handler of this SDK.

    Custom code may set additional attributes on it.
    """

    @property
    def max_retries(self) -> int:
        """Maximum number of retries per request, not counting the first attempt."""
        return int(self._inner.max_tries) - 1

    def interpret_response(self, response_or_exception: Any) -> Any:
        """Return the error handler's resolution (action and message) for a response."""
        return to_resolution(self._inner.interpret(response_or_exception, {"config": self._config}))


class _AuthenticatorAdapter(AuthBase):
    """Adapter with the interface of requests (``AuthBase``) for an authenticator of this SDK."""

    def __init__(self, inner: Any, owner: StreamOwner, config: Mapping[str, Any]) -> None:
        self._inner = inner
        self._owner = owner
        self.config: Mapping[str, Any] = config

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the credentials to a prepared request and return the request."""
        signed = self._inner.auth(self._owner.stream)(request)
        return cast("requests.PreparedRequest", signed)


_ADAPTERS: Final[
    tuple[tuple[Callable[[Any], bool], Callable[[Any, StreamOwner, Any], Any]], ...]
] = (
    (lambda one: hasattr(one, "instance"), lambda one, owner, config: one.instance),  # noqa: ARG005
    (lambda one: isinstance(one, partition_routers.ParentStreamConfig), _adapt_parent),
    (
        lambda one: isinstance(one, transformations.AddedFieldDefinition),
        lambda one, owner, config: _adapt_added_field(one),  # noqa: ARG005
    ),
    (
        lambda one: isinstance(one, request_options.RequestOption),
        lambda one, owner, config: _adapt_option(one),  # noqa: ARG005
    ),
    (
        lambda one: isinstance(one, cursor.MinMaxDatetime),
        lambda one, owner, config: _adapt_min_max(one),  # noqa: ARG005
    ),
    (
        lambda one: isinstance(one, our_errors.HttpResponseFilter),
        lambda one, owner, config: CdkHttpResponseFilter(one, config),  # noqa: ARG005
    ),
    (lambda one: hasattr(one, "extract"), lambda one, owner, config: _ExtractorAdapter(one)),  # noqa: ARG005
    (lambda one: hasattr(one, "auth"), _AuthenticatorAdapter),
    (
        lambda one: hasattr(one, "interpret"),
        lambda one, owner, config: _ErrorHandlerAdapter(one, config),  # noqa: ARG005
    ),
    (
        lambda one: hasattr(one, "compute_wait"),
        lambda one, owner, config: _BackoffAdapter(one, config),  # noqa: ARG005
    ),
)
"""Pairs of a test for a component and a factory of its adapter; the first match is used."""
