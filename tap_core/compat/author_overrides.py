# mypy: disable-error-code="unreachable"
"""Type stubs for properties that authors may override with a plain value or a `ClassVar`.

The classes are empty at run time; the members are properties of the actual classes. mypy allows a
value in place of a property. pyright does so only if the base class assigns a descriptor instead of
declaring a property, so it is shown one. Only mypy treats a name ``MYPY`` as true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

__all__ = [
    "MYPY",
    "GraphQLStreamOverrides",
    "RESTStreamOverrides",
    "SinkOverrides",
    "StreamOverrides",
    "TargetOverrides",
]

_T = TypeVar("_T")
MYPY: Literal[False] = False
"""False when a program runs and for every type checker but one."""

if MYPY or not TYPE_CHECKING:

    class StreamOverrides:
        """Overridable members of `Stream`."""

    class RESTStreamOverrides:
        """Overridable members of `RESTStream`."""

    class GraphQLStreamOverrides:
        """Overridable members of `GraphQLStream`."""

    class SinkOverrides:
        """Overridable members of `BatchSink` and `RecordSink`."""

    class TargetOverrides:
        """Overridable members of `Target`."""

else:  # pragma: no cover - for pyright
    from collections.abc import Sequence

    from tap_core.http.request import Auth
    from tap_core.types import JsonSchema

    class _Said(Generic[_T]):
        def __get__(self, instance: Any, owner: Any = None, /) -> _T: ...
        def __set__(self, instance: Any, value: _T, /) -> None: ...

    class StreamOverrides:
        """Overridable members of `Stream`."""

        schema = _Said[JsonSchema]()
        primary_keys = _Said[Sequence[str]]()
        replication_key = _Said[str | None]()
        replication_method = _Said[str]()
        state_partitioning_keys = _Said[Sequence[str] | None]()
        is_sorted = _Said[bool]()
        check_sorted = _Said[bool]()
        partitions = _Said[Sequence[dict[str, Any]] | None]()

    class RESTStreamOverrides:
        """Overridable members of `RESTStream`."""

        replication_key = _Said[str | None]()
        state_partitioning_keys = _Said[Sequence[str] | None]()
        url_base = _Said[str]()
        authenticator = _Said[Auth]()
        http_headers = _Said[dict[str, Any]]()
        http_method = _Said[str]()
        timeout = _Said[float]()
        user_agent = _Said[str]()
        records_jsonpath = _Said[str]()

    class GraphQLStreamOverrides:
        """Overridable members of `GraphQLStream`."""

        records_jsonpath = _Said[str]()
        query = _Said[str]()

    class SinkOverrides:
        """Overridable members of `BatchSink` and `RecordSink`."""

        max_size = _Said[int]()
        batch_size_rows = _Said[int | None]()
        current_size = _Said[int]()
        key_properties = _Said[Sequence[str]]()
        include_sdc_metadata_properties = _Said[bool]()
        process_activate_version_messages = _Said[bool]()

    class TargetOverrides:
        """Overridable members of `Target`."""

        max_parallelism = _Said[int]()
