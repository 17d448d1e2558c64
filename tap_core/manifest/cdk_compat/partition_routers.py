"""Base classes for custom partition routers, and an adapter for parent streams.

A custom partition router may read its parent streams. The child stream creates its parent streams;
a `StreamOwner` refers to the child stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import InitVar, dataclass
from typing import Any, cast

from tap_core.manifest.cdk_compat.interpolation import InterpolatedString, evaluate
from tap_core.manifest.cdk_compat.models import CdkStreamSlice, Record, RequestOptionType
from tap_core.manifest.cdk_compat.requesters import CdkRequestOption
from tap_core.manifest.components.partition_routers import PARENT_SLICE
from tap_core.manifest.dpath import MISSING, make_getter, split_path
from tap_core.manifest.interfaces import DeclarativeStreamProtocol
from tap_core.manifest.state_translation import to_parent_state

__all__ = [
    "CdkListPartitionRouter",
    "CdkParentStreamConfig",
    "CdkPartition",
    "CdkPartitionRouter",
    "CdkStream",
    "CdkSubstreamPartitionRouter",
    "StreamOwner",
    "StreamSlicer",
]


@dataclass
class StreamOwner:
    """Mutable reference to the stream that currently uses a custom component.

    The reference is updated whenever the stream calls the component.
    """

    stream: DeclarativeStreamProtocol | None = None

    def parent(self, node: Any) -> DeclarativeStreamProtocol:
        """Return the parent stream that the YAML node of a manifest declares.

        Raises:
            RuntimeError: The custom component does not request slices of a stream at the moment.
        """
        if self.stream is None:
            raise RuntimeError("A parent stream can only be read while slices are requested.")
        return self.stream.parent(node)


class CdkPartition:
    """Slice of a parent stream; `read` requests the records of the slice from the API."""

    def __init__(self, stream: CdkStream, stream_slice: CdkStreamSlice) -> None:
        self._stream = stream
        self._slice = stream_slice

    def read(self) -> Iterator[Record]:
        """Request the records of the slice from the API and yield them."""
        return self._stream.read_records(stream_slice=self._slice)

    def to_slice(self) -> CdkStreamSlice:
        """Return the slice as a CdkStreamSlice, without reading records."""
        return self._slice

    def stream_name(self) -> str:
        """Return the name of the parent stream to which the slice belongs."""
        return self._stream.name


class CdkStream:
    """Adapter from a parent stream to airbyte-cdk's interface Stream.

    Custom components use it to read the records and slices of the parent stream.
    """

    def __init__(self, owner: StreamOwner, declared: Any) -> None:
        self._owner = owner
        self._declared = declared
        self._resumed: DeclarativeStreamProtocol | None = None

    @property
    def _stream(self) -> DeclarativeStreamProtocol:
        return self._resumed or self._owner.parent(self._declared)

    @property
    def cursor_field(self) -> str | list[str]:
        """Name of the parent stream's cursor field; [] if the stream has no cursor."""
        return getattr(self._stream, "replication_key", None) or []

    @property
    def supports_incremental(self) -> bool:
        """True if the parent stream has a cursor field."""
        return bool(self.cursor_field)

    @property
    def state(self) -> Mapping[str, Any]:
        """State up to which the parent stream was read; {} if it was read from the start."""
        if self._resumed is None:
            return {}
        key = str(self.cursor_field)
        return to_parent_state(self._resumed.resume_position, key)

    @state.setter
    def state(self, value: Mapping[str, Any]) -> None:
        """Set the state from which the parent stream resumes; {} reads it from the start."""
        parent = self._owner.parent(self._declared)
        self._resumed = parent.resume_from(value) if value else None

    @property
    def name(self) -> str:
        """Name of the parent stream."""
        return str(self._declared.get("name") or self._stream.name)

    def stream_slices(self, **_: Any) -> Iterator[CdkStreamSlice]:
        """Yield the slices of the parent stream; without partitions, yield one empty slice."""
        for context in self._stream.slices():
            yield CdkStreamSlice(
                partition=dict(context or {}),
                cursor_slice={},
                extra_fields=getattr(context, "extra_fields", {}),
            )

    def generate_partitions(self) -> Iterator[CdkPartition]:
        """Yield a `CdkPartition`, which can read the records, for each slice of the stream."""
        for stream_slice in self.stream_slices():
            yield CdkPartition(self, stream_slice)

    def read_records(
        self,
        sync_mode: Any = None,  # noqa: ARG002  (airbyte-cdk's signature)
        cursor_field: Any = None,  # noqa: ARG002
        stream_slice: Any = None,
        stream_state: Any = None,  # noqa: ARG002
    ) -> Iterator[Record]:
        """Yield the parent stream's records in a slice, by default in all slices.

        The other arguments are ignored.
        """
        stream, name = self._stream, self.name
        slices = stream.slices()
        if stream_slice is not None:
            slices = [dict(getattr(stream_slice, "partition", stream_slice))]
        for context in slices:
            read_slice = CdkStreamSlice(partition=dict(context or {}), cursor_slice={})
            for record in stream.read_slice(context or None):
                yield Record(record, name, read_slice)

    def read_only_records(self, state: Any = None) -> Iterator[Record]:  # noqa: ARG002
        """Yield the parent stream's records in all stream slices; ``state`` is ignored."""
        return self.read_records()


@dataclass
class StreamSlicer:
    """Base class of partition routers and cursors, which split a stream into slices.

    A subclass may also add query parameters, headers or body fields to the requests of a slice.
    """

    def stream_slices(self) -> Iterable[Any]:
        """Return the stream slices to read, in the order of reading; implemented by subclasses."""
        raise NotImplementedError

    def get_request_params(
        self,
        stream_state: Any = None,  # noqa: ARG002  (airbyte-cdk's signature)
        stream_slice: Any = None,
        next_page_token: Any = None,  # noqa: ARG002
    ) -> Mapping[str, Any]:
        """Return the query parameters to add to the requests of a stream slice, as a dict."""
        return self._get_request_option(RequestOptionType.request_parameter, stream_slice)

    def get_request_headers(
        self,
        stream_state: Any = None,  # noqa: ARG002
        stream_slice: Any = None,
        next_page_token: Any = None,  # noqa: ARG002
    ) -> Mapping[str, Any]:
        """Return the HTTP headers to add to the requests of a stream slice, as a dict."""
        return self._get_request_option(RequestOptionType.header, stream_slice)

    def get_request_body_data(
        self,
        stream_state: Any = None,  # noqa: ARG002
        stream_slice: Any = None,
        next_page_token: Any = None,  # noqa: ARG002
    ) -> Mapping[str, Any]:
        """Return the form fields to add to the requests of a stream slice, as a dict."""
        return self._get_request_option(RequestOptionType.body_data, stream_slice)

    def get_request_body_json(
        self,
        stream_state: Any = None,  # noqa: ARG002
        stream_slice: Any = None,
        next_page_token: Any = None,  # noqa: ARG002
    ) -> Mapping[str, Any]:
        """Return the members to add to the JSON body of a slice's requests, as a dict."""
        return self._get_request_option(RequestOptionType.body_json, stream_slice)

    def _get_request_option(
        self,
        option_type: RequestOptionType,  # noqa: ARG002  (subclasses use it)
        stream_slice: Any,  # noqa: ARG002
    ) -> Mapping[str, Any]:
        return {}


@dataclass
class CdkPartitionRouter(StreamSlicer):
    """Base class of partition routers, which split a stream into one slice per partition."""

    def get_stream_state(self) -> Mapping[str, Any] | None:
        """Return None, because the stream, not the router, stores the state of the slices."""


@dataclass
class CdkListPartitionRouter(CdkPartitionRouter):
    """Partition router that creates one stream slice for each value of a list.

    Its type in manifests is ListPartitionRouter.
    """

    values: Any
    cursor_field: Any
    config: Mapping[str, Any]
    parameters: InitVar[Mapping[str, Any]]
    request_option: Any = None

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        self.values = evaluate(self.values, self.config, parameters)
        self._cursor_field = InterpolatedString.create(self.cursor_field, parameters=parameters)

    def stream_slices(self) -> Iterable[Any]:
        """Yield the stream slice ``{cursor_field: value}`` for each item of `values`."""
        name = self._cursor_field.eval(self.config)
        for value in cast("list[Any]", self.values):
            yield CdkStreamSlice(partition={name: value}, cursor_slice={})

    def _get_request_option(
        self, option_type: RequestOptionType, stream_slice: Any
    ) -> Mapping[str, Any]:
        value: Any = stream_slice and stream_slice.get(self._cursor_field.eval(self.config))
        return _get_injected_values(self.request_option, option_type, value, self.config)


@dataclass
class CdkParentStreamConfig:
    """Configuration of a parent stream: each parent record becomes one slice of the child stream.

    The type name in manifests is ParentStreamConfig.
    """

    stream: Any
    parent_key: Any
    partition_field: Any
    config: Mapping[str, Any]
    parameters: InitVar[Mapping[str, Any]]
    extra_fields: Any = None
    request_option: Any = None
    incremental_dependency: bool = False
    lazy_read_pointer: Any = None

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        self.parent_key = InterpolatedString.create(self.parent_key, parameters=parameters)
        self.partition_field = InterpolatedString.create(
            self.partition_field, parameters=parameters
        )


@dataclass
class CdkSubstreamPartitionRouter(CdkPartitionRouter):
    """Partition router that creates one stream slice per record of its parent streams."""

    parent_stream_configs: list[Any]
    config: Mapping[str, Any]
    parameters: InitVar[Mapping[str, Any]]

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        """Raise ValueError if `parent_stream_configs` is empty."""
        if not self.parent_stream_configs:
            raise ValueError("parent_stream_configs is empty: name at least one parent stream.")
        self._parameters = parameters

    def stream_slices(self) -> Iterable[Any]:
        """Yield a slice for each parent record; records without the parent key are skipped."""
        for parent in self.parent_stream_configs:
            name = parent.partition_field.eval(self.config)
            get_key = make_getter(split_path(str(parent.parent_key.eval(self.config))))
            paths = cast("list[list[str]]", parent.extra_fields or [])
            getters = [(".".join(path), make_getter(path)) for path in paths]
            for record in parent.stream.read_records():
                key = get_key(record.data)
                if key is None or key is MISSING:
                    continue
                parent_slice = record.associated_slice
                parent_partition: Any = parent_slice.partition if parent_slice else {}
                extra_fields = {label: get(record.data) for label, get in getters}
                yield CdkStreamSlice(
                    partition={name: key, PARENT_SLICE: parent_partition},
                    cursor_slice={},
                    extra_fields={
                        label: None if value is MISSING else value
                        for label, value in extra_fields.items()
                    },
                )

    def _get_request_option(
        self, option_type: RequestOptionType, stream_slice: Any
    ) -> Mapping[str, Any]:
        values: dict[str, Any] = {}
        for parent in self.parent_stream_configs:
            value: Any = stream_slice and stream_slice.get(parent.partition_field.eval(self.config))
            values.update(
                _get_injected_values(parent.request_option, option_type, value, self.config)
            )
        return values


def _get_injected_values(
    option: CdkRequestOption | None, kind: RequestOptionType, value: Any, config: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the values that a request option adds to one part of a request, such as its headers.

    ``kind`` is the part of the request, and ``value`` the value to send, for example of a
    partition. Return {} if the option adds nothing to this part, or if ``value`` is empty.
    """
    target: MutableMapping[str, Any] = {}
    if option is not None and option.inject_into == kind and value:
        option.inject_into_request(target, value, config)
    return target
