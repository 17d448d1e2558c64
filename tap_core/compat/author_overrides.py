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
    "AuthorProperty",
    "GraphQLStreamOverrides",
    "RESTStreamOverrides",
    "SinkOverrides",
    "TargetOverrides",
]

_T = TypeVar("_T")
MYPY: Literal[False] = False
"""False when a program runs and for every type checker but one."""


class AuthorProperty(Generic[_T]):
    """Type of a property that pyright lets authors replace by a plain value; for type checkers."""

    def __get__(self, instance: Any, owner: Any = None, /) -> _T:
        """Return the value of the property."""
        raise NotImplementedError

    def __set__(self, instance: Any, value: _T, /) -> None:
        """Set the value of the property."""
        raise NotImplementedError


if MYPY or not TYPE_CHECKING:

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

    class RESTStreamOverrides:
        """Overridable members of `RESTStream`."""

        replication_key = AuthorProperty[str | None]()
        state_partitioning_keys = AuthorProperty[Sequence[str] | None]()
        url_base = AuthorProperty[str]()
        authenticator = AuthorProperty[Auth]()
        http_headers = AuthorProperty[dict[str, Any]]()
        http_method = AuthorProperty[str]()
        timeout = AuthorProperty[float]()
        user_agent = AuthorProperty[str]()
        records_jsonpath = AuthorProperty[str]()

    class GraphQLStreamOverrides:
        """Overridable members of `GraphQLStream`."""

        records_jsonpath = AuthorProperty[str]()
        query = AuthorProperty[str]()

    class SinkOverrides:
        """Overridable members of `BatchSink` and `RecordSink`."""

        max_size = AuthorProperty[int]()
        batch_size_rows = AuthorProperty[int | None]()
        current_size = AuthorProperty[int]()
        key_properties = AuthorProperty[Sequence[str]]()
        include_sdc_metadata_properties = AuthorProperty[bool]()
        process_activate_version_messages = AuthorProperty[bool]()

    class TargetOverrides:
        """Overridable members of `Target`."""

        max_parallelism = AuthorProperty[int]()
