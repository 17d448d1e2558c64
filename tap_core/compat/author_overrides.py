# mypy: disable-error-code="unreachable"
"""What an author may say with a plain value, a `ClassVar` or a property, as type checkers see it.

Rules of the room: types only; the classes are empty when a program runs. The members are
properties in the classes that have them. mypy lets a subclass put a value in a property's
place; pyright, and editors that are built on it, do not, unless the base has a descriptor
that was assigned and not declared. So they are shown one. mypy, and it alone, takes a name
``MYPY`` to be true.
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
        """Members of `Stream`."""

    class RESTStreamOverrides:
        """Members of `RESTStream`."""

    class GraphQLStreamOverrides:
        """Members of `GraphQLStream`."""

    class SinkOverrides:
        """Members of `BatchSink` and `RecordSink`."""

    class TargetOverrides:
        """Members of `Target`."""

else:  # pragma: no cover - for pyright
    from collections.abc import Sequence

    from tap_core.http.request import Auth
    from tap_core.types import JsonSchema

    class _Said(Generic[_T]):
        def __get__(self, instance: Any, owner: Any = None, /) -> _T: ...
        def __set__(self, instance: Any, value: _T, /) -> None: ...

    class StreamOverrides:
        """Members of `Stream`."""

        schema = _Said[JsonSchema]()
        primary_keys = _Said[Sequence[str]]()
        replication_key = _Said[str | None]()
        replication_method = _Said[str]()
        state_partitioning_keys = _Said[Sequence[str] | None]()
        is_sorted = _Said[bool]()
        check_sorted = _Said[bool]()
        partitions = _Said[Sequence[dict[str, Any]] | None]()

    class RESTStreamOverrides:
        """Members of `RESTStream`."""

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
        """Members of `GraphQLStream`."""

        records_jsonpath = _Said[str]()
        query = _Said[str]()

    class SinkOverrides:
        """Members of `BatchSink` and `RecordSink`."""

        max_size = _Said[int]()
        batch_size_rows = _Said[int | None]()
        current_size = _Said[int]()
        key_properties = _Said[Sequence[str]]()
        include_sdc_metadata_properties = _Said[bool]()
        process_activate_version_messages = _Said[bool]()

    class TargetOverrides:
        """Members of `Target`."""

        max_parallelism = _Said[int]()
