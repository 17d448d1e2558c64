"""Partition routers: stream slices from fixed values or from the records of parent streams.

- Slices are generated lazily: a page of the parent stream is read when its first record is needed.
- Each slice has a context, a dict of partition values. It contains nothing else, because it is
  stored in the state. Extra fields of a parent record are attributes of the `PartitionSlice`, for
  templates.
- The key ``parent_slice`` contains the context of the parent stream's slice; it is omitted if the
  parent stream has no partitions.
- A stream with several routers has the Cartesian product of their slices (Airbyte's
  ``CartesianProductStreamSlicer``), see `tap_core.manifest.partition_cache.cartesian_product`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Final, cast

import requests

from tap_core.incremental.request_options import RequestOption
from tap_core.manifest.dpath import MISSING, make_getter, split_path
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import (
    SLICE_NAMES,
    DeclarativeStreamProtocol,
    PartitionRouter,
    TemplateScope,
    resolve,
)
from tap_core.singerlib.json import dump_json
from tap_core.types import Context, Record

__all__ = [
    "CHILD_RESPONSE",
    "PARENT_SLICE",
    "GroupingPartitionRouter",
    "ListPartitionRouter",
    "ParentStreamConfig",
    "PartitionSlice",
    "SubstreamPartitionRouter",
    "UnionPartitionRouter",
    "extend_stream_slice",
]

PARENT_SLICE: Final = "parent_slice"
"""Key in the context of a slice that contains the context of the parent stream's slice."""

CHILD_RESPONSE: Final = "child_response"
"""Extra field of a slice: a response that contains the child records of a parent record."""


class PartitionSlice(dict[str, Any]):
    """Dict of the partition values that identify a slice, with extra fields for templates.

    The extra fields are an attribute. They are ignored in comparisons and not stored in the state.
    In templates, the dict also contains the fields of the cursor.
    """

    def __init__(
        self,
        *args: Any,
        extra_fields: Mapping[str, Any] | None = None,
        cursor_slice: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(*args)
        self.cursor_slice: Mapping[str, Any] = cursor_slice or {}
        """Fields of the cursor, such as ``start_time``, as `add_cursor_slice` has added them."""
        self.extra_fields: Mapping[str, Any] = extra_fields or {}
        """Values that templates read from ``stream_slice.extra_fields``; not part of the state."""

    def __missing__(self, name: str) -> Any:
        """Return {} if the key ``parent_slice`` is missing, because templates expect it to exist.

        Raises:
            KeyError: Another key is missing.
        """
        if name == PARENT_SLICE:
            return {}
        raise KeyError(name)

    @property
    def parent_slice(self) -> Any:
        """Partition values of the parent stream's slice; {} if the parent stream has none."""
        return self[PARENT_SLICE]

    @property
    def partition(self) -> PartitionSlice:
        """This slice without the keys that `add_cursor_slice` has added."""
        return PartitionSlice({key: self[key] for key in self if key not in self.cursor_slice})

    _partition = partition
    """Name of ``partition`` in older manifests."""

    def add_cursor_slice(self, fields: Mapping[str, Any]) -> PartitionSlice:
        """Return this slice with the fields of a cursor; values of this slice take precedence."""
        added = {key: value for key, value in fields.items() if key not in self}
        return PartitionSlice({**self, **added}, extra_fields=self.extra_fields, cursor_slice=added)

    def merge(self, other: Mapping[str, Any]) -> PartitionSlice:
        """Return the union of this slice and ``other``; values of this slice take precedence."""
        extra_fields = {**getattr(other, "extra_fields", {}), **self.extra_fields}
        return PartitionSlice({**other, **self}, extra_fields=extra_fields)


def extend_stream_slice(
    scope: TemplateScope,
    extra_fields: Mapping[str, Any],
    values: Mapping[str, Any] | None = None,
) -> TemplateScope:
    """Return template variables whose ``stream_slice`` has further extra fields and values."""
    stream_slice: Mapping[str, Any] = scope.get("stream_slice") or {}
    extended = PartitionSlice(
        {**stream_slice, **(values or {})},
        extra_fields={**getattr(stream_slice, "extra_fields", {}), **extra_fields},
        cursor_slice=getattr(stream_slice, "cursor_slice", None),
    )
    return {**scope, **dict.fromkeys(SLICE_NAMES, extended)}


@dataclass(frozen=True)
class ListPartitionRouter:
    """Partition router that creates one stream slice per value of a list, such as a list of IDs."""

    cursor_field: str
    values: list[str] | Annotated[list[Any] | Callable[[TemplateScope], Any], "value"]
    request_option: RequestOption | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""

    def generate_contexts(self, stream: DeclarativeStreamProtocol) -> Iterator[Context]:  # noqa: ARG002  (the Protocol's parameter)
        """Yield the context ``{cursor_field: value}`` for each value of the list.

        Raises:
            ManifestError: `values` is not a list.
        """
        values = resolve(self.values, {"config": self.config})
        if not isinstance(values, (list, tuple)):
            raise ManifestError(
                f"values is {values!r}, and must be a list: use a list, or a template that returns"
                " one.",
                place=self.place,
            )
        for value in cast(list[Any], values):
            yield PartitionSlice({self.cursor_field: value})

    def put(self, request: Any, scope: TemplateScope) -> None:
        """Add the current stream slice's value to a request, if `request_option` is set."""
        _add_slice_value(self.request_option, self.cursor_field, request, scope)


@dataclass(frozen=True)
class ParentStreamConfig:
    """Parent stream of a child stream: each parent record becomes one slice of the child stream."""

    stream: Annotated[Mapping[str, Any], "node"]
    parent_key: str
    partition_field: str
    request_option: RequestOption | None = None
    incremental_dependency: bool = False
    extra_fields: list[list[str]] = field(default_factory=list)
    lazy_read_pointer: list[str] = field(default_factory=list)

    @cached_property
    def _get_key(self) -> Callable[[Any], Any]:
        return make_getter(split_path(self.parent_key))

    @cached_property
    def _extra_getters(self) -> list[tuple[str, Callable[[Any], Any]]]:
        return [(".".join(path), make_getter(path)) for path in self.extra_fields]

    @cached_property
    def _get_child_records(self) -> Callable[[Any], Any]:
        return make_getter(self.lazy_read_pointer)

    def generate_contexts(self, stream: DeclarativeStreamProtocol) -> Iterator[Context]:
        """Yield a context (a dict of partition values) for each parent record with a parent key.

        ``stream`` is the child stream. With `incremental_dependency`, the state of the child stream
        includes a state of the parent stream. The parent stream resumes from that state, and
        updates it at the end.
        """
        parent = stream.parent(self.stream)
        if not self.incremental_dependency:
            yield from self._generate_slice_contexts(parent)
            return
        parent = parent.resume_from(stream.find_parent_state(parent.name))
        yield from self._generate_slice_contexts(parent)
        stream.keep_parent_state(parent.name, parent.resume_position)

    def _generate_slice_contexts(self, parent: DeclarativeStreamProtocol) -> Iterator[Context]:
        for context in parent.slices():
            parent_slice = {PARENT_SLICE: dict(context)} if context else {}
            for record in parent.read_slice(context):
                key = self._get_key(record)
                if key is None or key is MISSING:
                    parent.log(
                        "A parent record without '%s' creates no slice.",
                        self.parent_key,
                        level=logging.DEBUG,
                    )
                    continue
                yield PartitionSlice(
                    {self.partition_field: key, **parent_slice},
                    extra_fields=self._get_extra_fields(record),
                )

    def _get_extra_fields(self, record: Record) -> dict[str, Any]:
        """Return the extra fields of a slice: values of the parent record, for templates.

        If `lazy_read_pointer` is set, the child records inside the parent record are added as the
        field ``child_response``.
        """
        fields: dict[str, Any] = {}
        if self.lazy_read_pointer:
            fields[CHILD_RESPONSE] = _make_response(self._get_child_records(record))
        for name, get in self._extra_getters:
            value = get(record)
            fields[name] = None if value is MISSING else value
        return fields

    def put(self, request: Any, scope: TemplateScope) -> None:
        """Add the parent key of the current slice to a request, if `request_option` is set."""
        _add_slice_value(self.request_option, self.partition_field, request, scope)


@dataclass(frozen=True)
class SubstreamPartitionRouter:
    """Partition router that creates one slice per parent record, for one or more parent streams."""

    parent_stream_configs: list[ParentStreamConfig]

    def __post_init__(self) -> None:
        """Raise ManifestError if there is no parent stream."""
        if not self.parent_stream_configs:
            raise ManifestError("parent_stream_configs is empty: name at least one parent stream.")

    def generate_contexts(self, stream: DeclarativeStreamProtocol) -> Iterator[Context]:
        """Yield a context (a dict of partition values) for each record of each parent stream."""
        for parent in self.parent_stream_configs:
            yield from parent.generate_contexts(stream)

    def put(self, request: Any, scope: TemplateScope) -> None:
        """Add the parent key of the current slice to a request, if `request_option` is set."""
        for parent in self.parent_stream_configs:
            parent.put(request, scope)


@dataclass(frozen=True)
class GroupingPartitionRouter:
    """Partition router that combines several slices of another router into one.

    The partition field of the combined slice is a list of the values of these slices.
    """

    group_size: int
    underlying_partition_router: PartitionRouter
    deduplicate: bool = True

    def __post_init__(self) -> None:
        """Raise ManifestError if `group_size` is below 1, or if the router has a request option."""
        if self.group_size < 1:
            raise ManifestError(f"group_size is {self.group_size}, and must be at least 1.")
        for name, option in _find_partition_fields([self.underlying_partition_router]):
            if option is not None:
                raise ManifestError(
                    "The router of a group has no request_option: use the list of values in a"
                    f" template, as {{{{ stream_partition['{name}'] | join(',') }}}}."
                )

    def generate_contexts(self, stream: DeclarativeStreamProtocol) -> Iterator[Context]:
        """Yield one context per `group_size` slices, and one for the remaining slices.

        With `deduplicate`, slices with equal values count as one.

        Raises:
            ManifestError: A slice has more than one partition field.
        """
        batch: list[Context] = []
        seen: set[str] = set()
        for context in self.underlying_partition_router.generate_contexts(stream):
            key = _make_group_key(context)
            if self.deduplicate:
                if key in seen:
                    continue
                seen.add(key)
            batch.append(context)
            if len(batch) == self.group_size:
                yield _make_group(batch)
                batch = []
        if batch:
            yield _make_group(batch)

    def put(self, request: Any, scope: TemplateScope) -> None:
        """Do nothing: templates in the manifest add the values of a combined slice to a request.

        airbyte-cdk does the same.
        """


@dataclass(frozen=True)
class UnionPartitionRouter:
    """Partition router that yields the slices of several routers, but no value twice.

    All slices have the same partition field. Other values, such as ``parent_slice``, become extra
    fields, which are not stored in the state. So the state of a slice does not depend on the router
    that has yielded the slice.
    """

    partition_routers: list[PartitionRouter]
    partition_field: str

    def __post_init__(self) -> None:
        """Raise ManifestError if a router has another partition field, or a request option.

        Custom routers are not checked, because their partition fields are unknown until they run.
        """
        for name, option in _find_partition_fields(self.partition_routers):
            if name != self.partition_field:
                raise ManifestError(
                    f"A router of the union has the partition field '{name}', and must have"
                    f" '{self.partition_field}', the partition_field of the union."
                )
            if option is not None:
                raise ManifestError(
                    "A router of a union has no request_option: use the value in a template, as"
                    f" {{{{ stream_partition['{name}'] }}}}."
                )

    def generate_contexts(self, stream: DeclarativeStreamProtocol) -> Iterator[Context]:
        """Yield a context (a dict of partition values) for each distinct value of the routers.

        The values are in the order of the routers.

        Raises:
            ManifestError: A slice has no value for the partition field.
        """
        seen: set[str] = set()
        for router in self.partition_routers:
            for context in router.generate_contexts(stream):
                stream_slice = self._make_slice(context)
                key = dump_json(stream_slice[self.partition_field], sort_keys=True, default=str)
                if key not in seen:
                    seen.add(key)
                    yield stream_slice

    def _make_slice(self, context: Context) -> PartitionSlice:
        """Return a context with only the partition field; its other values become extra fields.

        Raises:
            ManifestError: The context has no value for the partition field.
        """
        other_fields = dict(context)
        if self.partition_field not in other_fields:
            raise ManifestError(
                f"A router of the union yields a slice without the partition field"
                f" '{self.partition_field}'."
            )
        value = other_fields.pop(self.partition_field)
        extra_fields = {**getattr(context, "extra_fields", {}), **other_fields}
        return PartitionSlice({self.partition_field: value}, extra_fields=extra_fields)

    def put(self, request: Any, scope: TemplateScope) -> None:
        """Do nothing: templates in the manifest add the value of a slice to a request.

        airbyte-cdk does the same.
        """


def _find_partition_fields(
    routers: Iterable[PartitionRouter],
) -> Iterator[tuple[str, RequestOption | None]]:
    """Yield the partition field and the request option of each router; skip custom routers."""
    for router in routers:
        if isinstance(router, ListPartitionRouter):
            yield router.cursor_field, router.request_option
        elif isinstance(router, SubstreamPartitionRouter):
            for parent in router.parent_stream_configs:
                yield parent.partition_field, parent.request_option
        elif isinstance(router, UnionPartitionRouter):
            yield router.partition_field, None


def _add_slice_value(
    option: RequestOption | None, name: str, request: Any, scope: TemplateScope
) -> None:
    """Add the current slice's value of the partition field ``name`` to a request.

    Nothing is added if ``option`` is None or the value is empty, as in airbyte-cdk.
    """
    if option is not None:
        value = scope.get("stream_partition", {}).get(name)
        if value:
            option.put(request, value)


def _make_group_key(context: Context) -> str:
    """Return the value of a context's only partition field as JSON, for comparison.

    The key ``parent_slice`` does not count as a partition field.

    Raises:
        ManifestError: The context has no or several partition fields.
    """
    names = context.keys() - {PARENT_SLICE}
    if len(names) != 1:
        raise ManifestError(
            f"Slices with the fields {', '.join(sorted(names))} cannot be grouped: a"
            " GroupingPartitionRouter takes a router whose slices have one field."
        )
    return dump_json(context[names.pop()], sort_keys=True, default=str)


def _make_group(batch: list[Context]) -> PartitionSlice:
    """Combine several contexts (dicts of partition values) into one, with a list for each key.

    If a context has no value for a key, the list contains None. The extra fields of the contexts
    are combined in the same way.
    """
    extras: list[Mapping[str, Any]] = [getattr(context, "extra_fields", {}) for context in batch]
    return PartitionSlice(
        {name: [context.get(name) for context in batch] for name in _collect_keys(batch)},
        extra_fields={
            name: [fields.get(name) for fields in extras] for name in _collect_keys(extras)
        },
    )


def _collect_keys(mappings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the distinct keys of all mappings, in the order of their first occurrence."""
    return list(dict.fromkeys(name for mapping in mappings for name in mapping))


def _make_response(records: Any) -> requests.Response:
    """Return an HTTP response that contains child records, as if an API had sent it."""
    response = requests.Response()
    response.status_code = 200
    response.headers["Content-Type"] = "application/json"
    response._content = dump_json([] if records is MISSING else records, default=str).encode()  # noqa: SLF001
    return response
