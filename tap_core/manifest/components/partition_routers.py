"""The slices of a stream: fixed values, and records of parent streams.

Rules of the room: slices come lazily, a parent's page is read when its first record is needed.
A context holds what tells a slice apart and nothing else, since it is stored with the state;
what a parent's record gives besides (``extra_fields``) hangs on the `Slice` for templates. A
parent's slices are its own business: ``parent_slice`` names them, and is left out where there
are none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Final, Protocol, cast

import requests

from tap_core.incremental.request_options import RequestOption
from tap_core.manifest.dpath import MISSING, make_getter, split_path
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import (
    DeclarativeStreamProtocol,
    InterpolatedValue,
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
    "ResumableParent",
    "StatefulRouter",
    "SubstreamPartitionRouter",
    "UnionPartitionRouter",
]

PARENT_SLICE: Final = "parent_slice"
"""The name under which a context holds the context of its parent's slice."""

CHILD_RESPONSE: Final = "child_response"
"""The extra field that holds the child's records where they are part of the parent's."""


class PartitionSlice(dict[str, Any]):
    """A context, and what is known of the slice besides.

    It is equal to a plain dict of its items, and is stored as one.
    """

    def __init__(self, *args: Any, extra_fields: Mapping[str, Any] | None = None) -> None:
        super().__init__(*args)
        self.extra_fields: Mapping[str, Any] = extra_fields or {}
        """What templates see as ``stream_slice.extra_fields``."""

    def __missing__(self, name: str) -> Any:
        """Return an empty context for a parent without slices, as templates expect one."""
        if name == PARENT_SLICE:
            return {}
        raise KeyError(name)

    @property
    def parent_slice(self) -> Any:
        """What templates see as ``stream_slice.parent_slice``."""
        return self[PARENT_SLICE]

    @property
    def _partition(self) -> PartitionSlice:
        """The slice itself, which old manifests ask for under this name."""
        return self

    def joined(self, other: Mapping[str, Any]) -> PartitionSlice:
        """Return both together; where both have a key, this one's value counts."""
        more: Mapping[str, Any] = getattr(other, "extra_fields", {})
        return PartitionSlice({**other, **self}, extra_fields={**more, **self.extra_fields})


class StatefulRouter(Protocol):
    """What a stream keeps in its state of how far its parents were read."""

    def remembered(self, parent: str) -> Any:
        """Return the position of a parent as it was kept, None at first."""

    def remember(self, parent: str, position: Any) -> None:
        """Keep the position of a parent from when all slices given so far have been synced."""


class ResumableParent(Protocol):
    """A parent that is read from where its children left it."""

    def resumed(self, position: Any) -> DeclarativeStreamProtocol:
        """Return a stream that reads what is new since a position."""

    @property
    def position(self) -> Any:
        """How far it has been read: what `resumed` takes, as JSON has it."""


@dataclass(frozen=True)
class ListPartitionRouter:
    """A slice for each value of a list."""

    cursor_field: str
    values: list[str] | InterpolatedValue
    request_option: RequestOption | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""

    def contexts(self, stream: DeclarativeStreamProtocol) -> Iterator[Context]:  # noqa: ARG002  the Protocol's
        """Yield a context for each value.

        Raises:
            ManifestError: the values are no list.
        """
        values = resolve(self.values, {"config": self.config})
        if not isinstance(values, (list, tuple)):
            raise ManifestError(
                f"values is {values!r}, and must be a list: give one, or a template whose result"
                " is one.",
                place=self.place,
            )
        for value in cast(list[Any], values):
            yield PartitionSlice({self.cursor_field: value})

    def put(self, request: Any, scope: TemplateScope) -> None:
        """Add the value to a request, where an option says so."""
        _put(self.request_option, self.cursor_field, request, scope)


@dataclass(frozen=True)
class ParentStreamConfig:
    """A stream whose records are slices of another."""

    stream: Annotated[Mapping[str, Any], "node"]
    parent_key: str
    partition_field: str
    request_option: RequestOption | None = None
    incremental_dependency: bool = False
    extra_fields: list[list[str]] = field(default_factory=list)
    lazy_read_pointer: list[str] = field(default_factory=list)

    @cached_property
    def _key(self) -> Callable[[Any], Any]:
        return make_getter(split_path(self.parent_key))

    @cached_property
    def _extras(self) -> list[tuple[str, Callable[[Any], Any]]]:
        return [(".".join(path), make_getter(path)) for path in self.extra_fields]

    @cached_property
    def _records(self) -> Callable[[Any], Any]:
        return make_getter(self.lazy_read_pointer)

    def contexts(self, stream: DeclarativeStreamProtocol) -> Iterator[Context]:
        """Yield a context for each record of the parent that has the key."""
        parent = stream.parent(self.stream)
        if not self.incremental_dependency:
            yield from self._of_slices(parent)
            return
        keeper = cast(StatefulRouter, stream)
        parent = cast(ResumableParent, parent).resumed(keeper.remembered(parent.name))
        yield from self._of_slices(parent)
        keeper.remember(parent.name, cast(ResumableParent, parent).position)

    def _of_slices(self, parent: DeclarativeStreamProtocol) -> Iterator[Context]:
        for context in parent.slices():
            above = {PARENT_SLICE: dict(context)} if context else {}
            for record in parent.read_slice(context):
                key = self._key(record)
                if key is None or key is MISSING:
                    parent.log(
                        "A record without '%s' has no slice.", self.parent_key, level=logging.DEBUG
                    )
                    continue
                yield PartitionSlice(
                    {self.partition_field: key, **above}, extra_fields=self._more(record)
                )

    def _more(self, record: Record) -> dict[str, Any]:
        """Return what a record gives besides its key."""
        more: dict[str, Any] = {}
        if self.lazy_read_pointer:
            more[CHILD_RESPONSE] = _as_response(self._records(record))
        for name, find in self._extras:
            value = find(record)
            more[name] = None if value is MISSING else value
        return more

    def put(self, request: Any, scope: TemplateScope) -> None:
        """Add the key to a request, where an option says so."""
        _put(self.request_option, self.partition_field, request, scope)


@dataclass(frozen=True)
class SubstreamPartitionRouter:
    """A slice for each record of one or several parents, one parent after the other."""

    parent_stream_configs: list[ParentStreamConfig]

    def __post_init__(self) -> None:
        """Refuse a router without parents."""
        if not self.parent_stream_configs:
            raise ManifestError("parent_stream_configs is empty: name at least one parent stream.")

    def contexts(self, stream: DeclarativeStreamProtocol) -> Iterator[Context]:
        """Yield a context for each record of the parents."""
        for parent in self.parent_stream_configs:
            yield from parent.contexts(stream)

    def put(self, request: Any, scope: TemplateScope) -> None:
        """Add the keys of parents to a request, where options say so."""
        for parent in self.parent_stream_configs:
            parent.put(request, scope)


@dataclass(frozen=True)
class GroupingPartitionRouter:
    """Slices of another router, several at a time: each field holds a list of values."""

    group_size: int
    underlying_partition_router: PartitionRouter
    deduplicate: bool = True

    def __post_init__(self) -> None:
        """Refuse groups without members."""
        if self.group_size < 1:
            raise ManifestError(f"group_size is {self.group_size}, and must be at least 1.")

    def contexts(self, stream: DeclarativeStreamProtocol) -> Iterator[Context]:
        """Yield a context for so many slices, and one for the rest.

        Raises:
            ManifestError: a slice has more than one field.
        """
        batch: list[Context] = []
        seen: set[str] = set()
        for context in self.underlying_partition_router.contexts(stream):
            key = _only_value(context)
            if self.deduplicate:
                if key in seen:
                    continue
                seen.add(key)
            batch.append(context)
            if len(batch) == self.group_size:
                yield _grouped(batch)
                batch = []
        if batch:
            yield _grouped(batch)

    def put(self, request: Any, scope: TemplateScope) -> None:
        """Add nothing: templates of the request name the group, as in airbyte-cdk."""


@dataclass(frozen=True)
class UnionPartitionRouter:
    """The slices of several routers, one router after the other."""

    partition_routers: list[PartitionRouter]

    def contexts(self, stream: DeclarativeStreamProtocol) -> Iterator[Context]:
        """Yield the contexts of each router."""
        for router in self.partition_routers:
            yield from router.contexts(stream)

    def put(self, request: Any, scope: TemplateScope) -> None:
        """Add what each router adds."""
        for router in self.partition_routers:
            router.put(request, scope)


def _put(option: RequestOption | None, name: str, request: Any, scope: TemplateScope) -> None:
    """Put a slice's value into a request; an empty one is left out, as in airbyte-cdk."""
    if option is not None:
        value = scope.get("stream_partition", {}).get(name)
        if value:
            option.put(request, value)


def _only_value(context: Context) -> str:
    names = context.keys() - {PARENT_SLICE}
    if len(names) != 1:
        raise ManifestError(
            f"Slices with the fields {', '.join(sorted(names))} cannot be grouped: a"
            " GroupingPartitionRouter takes a router whose slices have one field."
        )
    return dump_json(context[names.pop()], sort_keys=True, default=str)


def _grouped(batch: list[Context]) -> PartitionSlice:
    extras: list[Mapping[str, Any]] = [getattr(one, "extra_fields", {}) for one in batch]
    return PartitionSlice(
        {name: [one.get(name) for one in batch] for name in _names(batch)},
        extra_fields={name: [one.get(name) for one in extras] for name in _names(extras)},
    )


def _names(mappings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the keys of all mappings, each once, in the order in which they come."""
    return list(dict.fromkeys(name for one in mappings for name in one))


def _as_response(records: Any) -> requests.Response:
    """Return an answer that holds what a parent's record holds of its children."""
    made = requests.Response()
    made.status_code = 200
    made.headers["Content-Type"] = "application/json"
    made._content = dump_json([] if records is MISSING else records, default=str).encode()  # noqa: SLF001
    return made
