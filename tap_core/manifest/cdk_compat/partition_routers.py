"""Partition routers to be subclassed, and parent streams as their authors see them.

Rules of the room: a parent is read through the stream that its slices are for; who that is comes
with `Owner`, when the slices are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import InitVar, dataclass, field
from typing import Any, cast

from tap_core.manifest.cdk_compat.interpolation import InterpolatedString, evaluate
from tap_core.manifest.cdk_compat.models import CdkStreamSlice, Record, RequestOptionType
from tap_core.manifest.cdk_compat.requesters import CdkRequestOption
from tap_core.manifest.components.partition_routers import PARENT_SLICE, ResumableParent
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
    """The stream that components of others work for, known once it asks them."""

    stream: DeclarativeStreamProtocol | None = None

    def parent(self, declared: Any) -> DeclarativeStreamProtocol:
        """Return the stream of a part of the manifest.

        Raises:
            RuntimeError: nobody has asked yet.
        """
        if self.stream is None:
            raise RuntimeError("A parent stream can be read when slices are asked for, not before.")
        return self.stream.parent(declared)


class CdkPartition:
    """One slice of a stream, to be read."""

    def __init__(self, stream: CdkStream, stream_slice: CdkStreamSlice) -> None:
        self._stream = stream
        self._slice = stream_slice

    def read(self) -> Iterator[Record]:
        """Yield the records of the slice."""
        return self._stream.read_records(stream_slice=self._slice)

    def to_slice(self) -> CdkStreamSlice:
        """Return the slice."""
        return self._slice

    def stream_name(self) -> str:
        """Return the name of the stream."""
        return self._stream.name


class CdkStream:
    """A parent stream: its slices, and their records."""

    def __init__(self, owner: StreamOwner, declared: Any) -> None:
        self._owner = owner
        self._declared = declared
        self._resumed: DeclarativeStreamProtocol | None = None

    @property
    def _stream(self) -> DeclarativeStreamProtocol:
        return self._resumed or self._owner.parent(self._declared)

    @property
    def cursor_field(self) -> str | list[str]:
        """The name of its cursor, an empty list without one."""
        return getattr(self._stream, "replication_key", None) or []

    @property
    def supports_incremental(self) -> bool:
        """Whether it has a cursor."""
        return bool(self.cursor_field)

    @property
    def state(self) -> Mapping[str, Any]:
        """How far it has been read since a state was set; nothing before."""
        if self._resumed is None:
            return {}
        key = str(self.cursor_field)
        return to_parent_state(cast(ResumableParent, self._resumed).position, key)

    @state.setter
    def state(self, value: Mapping[str, Any]) -> None:
        """Read what is new since a state from now on."""
        parent = self._owner.parent(self._declared)
        self._resumed = cast(ResumableParent, parent).resumed(value) if value else None

    @property
    def name(self) -> str:
        """Its name."""
        return str(self._declared.get("name") or self._stream.name)

    def stream_slices(self, **_: Any) -> Iterator[CdkStreamSlice]:
        """Yield its slices; at least one, which may be empty."""
        for context in self._stream.slices():
            yield CdkStreamSlice(
                partition=dict(context or {}),
                cursor_slice={},
                extra_fields=getattr(context, "extra_fields", {}),
            )

    def generate_partitions(self) -> Iterator[CdkPartition]:
        """Yield its slices, each to be read."""
        for one in self.stream_slices():
            yield CdkPartition(self, one)

    def read_records(
        self,
        sync_mode: Any = None,  # noqa: ARG002  (airbyte-cdk's signature)
        cursor_field: Any = None,  # noqa: ARG002
        stream_slice: Any = None,
        stream_state: Any = None,  # noqa: ARG002
    ) -> Iterator[Record]:
        """Yield the records of a slice, those of all without one."""
        stream, name = self._stream, self.name
        slices = list(stream.slices()) if stream_slice is None else [_context(stream_slice)]
        for context in slices:
            made = CdkStreamSlice(partition=dict(context or {}), cursor_slice={})
            for record in stream.read_slice(context or None):
                yield Record(record, name, made)

    def read_only_records(self, state: Any = None) -> Iterator[Record]:  # noqa: ARG002
        """Yield all records."""
        return self.read_records()


def _context(stream_slice: Any) -> dict[str, Any] | None:
    known = getattr(stream_slice, "partition", stream_slice)
    return dict(cast(Mapping[str, Any], known)) or None


@dataclass
class StreamSlicer:
    """Gives the slices of a stream, and says what they add to requests."""

    def stream_slices(self) -> Iterable[Any]:
        """Return the slices."""
        raise NotImplementedError

    def get_request_params(
        self,
        stream_state: Any = None,  # noqa: ARG002  (airbyte-cdk's signature)
        stream_slice: Any = None,
        next_page_token: Any = None,  # noqa: ARG002
    ) -> Mapping[str, Any]:
        """Return parameters to add to the query."""
        return self._get_request_option(RequestOptionType.request_parameter, stream_slice)

    def get_request_headers(
        self,
        stream_state: Any = None,  # noqa: ARG002
        stream_slice: Any = None,
        next_page_token: Any = None,  # noqa: ARG002
    ) -> Mapping[str, Any]:
        """Return headers to add."""
        return self._get_request_option(RequestOptionType.header, stream_slice)

    def get_request_body_data(
        self,
        stream_state: Any = None,  # noqa: ARG002
        stream_slice: Any = None,
        next_page_token: Any = None,  # noqa: ARG002
    ) -> Mapping[str, Any]:
        """Return fields to add to a form."""
        return self._get_request_option(RequestOptionType.body_data, stream_slice)

    def get_request_body_json(
        self,
        stream_state: Any = None,  # noqa: ARG002
        stream_slice: Any = None,
        next_page_token: Any = None,  # noqa: ARG002
    ) -> Mapping[str, Any]:
        """Return members to add to a document."""
        return self._get_request_option(RequestOptionType.body_json, stream_slice)

    def _get_request_option(
        self,
        option_type: RequestOptionType,  # noqa: ARG002  (for subclasses)
        stream_slice: Any,  # noqa: ARG002
    ) -> Mapping[str, Any]:
        return {}


@dataclass
class CdkPartitionRouter(StreamSlicer):
    """The base of partition routers."""

    def get_stream_state(self) -> Mapping[str, Any] | None:
        """Return nothing: the state is the stream's."""


@dataclass
class CdkListPartitionRouter(CdkPartitionRouter):
    """A slice for each value of a list."""

    values: Any
    cursor_field: Any
    config: Mapping[str, Any]
    parameters: InitVar[Mapping[str, Any]]
    request_option: Any = None

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        """Settle the values."""
        self.values = evaluate(self.values, self.config, parameters)
        self._cursor_field = InterpolatedString.create(self.cursor_field, parameters=parameters)

    def stream_slices(self) -> Iterable[Any]:
        """Yield a slice for each value."""
        name = self._cursor_field.eval(self.config)
        for value in cast("list[Any]", self.values):
            yield CdkStreamSlice(partition={name: value}, cursor_slice={})

    def _get_request_option(
        self, option_type: RequestOptionType, stream_slice: Any
    ) -> Mapping[str, Any]:
        value: Any = stream_slice and stream_slice.get(self._cursor_field.eval(self.config))
        return _injected(self.request_option, option_type, value, self.config)


@dataclass
class CdkParentStreamConfig:
    """A stream whose records are slices of another."""

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
        """Read both names as templates."""
        self.parent_key = InterpolatedString.create(self.parent_key, parameters=parameters)
        self.partition_field = InterpolatedString.create(
            self.partition_field, parameters=parameters
        )


@dataclass
class CdkSubstreamPartitionRouter(CdkPartitionRouter):
    """A slice for each record of one or several parents."""

    parent_stream_configs: list[Any] = field()
    config: Mapping[str, Any] = field()
    parameters: InitVar[Mapping[str, Any]]

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        """Keep the parameters."""
        if not self.parent_stream_configs:
            raise ValueError("parent_stream_configs is empty: name at least one parent stream.")
        self._parameters = parameters

    def stream_slices(self) -> Iterable[Any]:
        """Yield a slice for each record of the parents that has the key."""
        for parent in self.parent_stream_configs:
            name = parent.partition_field.eval(self.config)
            find = make_getter(split_path(str(parent.parent_key.eval(self.config))))
            paths = cast("list[list[str]]", parent.extra_fields or [])
            more = [(".".join(path), make_getter(path)) for path in paths]
            for record in parent.stream.read_records():
                value = find(record.data)
                if value is None or value is MISSING:
                    continue
                within = record.associated_slice
                above: Any = within.partition if within else {}
                extra = {label: get(record.data) for label, get in more}
                yield CdkStreamSlice(
                    partition={name: value, PARENT_SLICE: above},
                    cursor_slice={},
                    extra_fields={
                        label: None if one is MISSING else one for label, one in extra.items()
                    },
                )

    def _get_request_option(
        self, option_type: RequestOptionType, stream_slice: Any
    ) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        for parent in self.parent_stream_configs:
            value: Any = stream_slice and stream_slice.get(parent.partition_field.eval(self.config))
            found.update(_injected(parent.request_option, option_type, value, self.config))
        return found


def _injected(
    option: CdkRequestOption | None, kind: RequestOptionType, value: Any, config: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return what an option adds to a part of a request, where it is for that part."""
    target: MutableMapping[str, Any] = {}
    if option is not None and option.inject_into == kind and value:
        option.inject_into_request(target, value, config)
    return target
