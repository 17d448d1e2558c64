"""A stream's schema by its name: what a source of schemas is, and the attribute that asks it.

Rules of the room:

- A source is asked once for each key. Whoever gets a schema gets a copy of their own.
- A stream resolves its schema once for each set of primary keys, which an input catalog
  may change; what an author does to that dictionary stays with the stream.
- Errors name the source and the key, and keep the error that was in the way as their cause.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Generic, Protocol, cast, final, overload

from tap_core.exceptions import SchemaNotFoundError, SchemaNotValidError
from tap_core.types import JsonSchema

if TYPE_CHECKING:
    from typing_extensions import Self, TypeVar

    KeyT = TypeVar("KeyT", bound=Hashable, default=str)
else:  # a default needs Python 3.13; only type checkers read it
    from typing import TypeVar

    KeyT = TypeVar("KeyT", bound=Hashable)

__all__ = ["KeyT", "SchemaPreprocessor", "SchemaSource", "StreamSchema"]


class SchemaPreprocessor(Protocol):
    """Changes a schema after it was found and before a stream has it."""

    def preprocess_schema(
        self, schema: JsonSchema, *, key_properties: Sequence[str] = ()
    ) -> JsonSchema:
        """Return the schema as the stream shall have it; ``schema`` may be changed."""
        ...


class SchemaSource(ABC, Generic[KeyT]):
    """Schemas by key: override `fetch_schema`."""

    def __init__(self) -> None:
        self._schema_cache: dict[KeyT, JsonSchema] = {}
        self._preprocessor: SchemaPreprocessor | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @final
    def preprocess_schema(
        self, schema: JsonSchema, *, key_properties: Sequence[str] = ()
    ) -> JsonSchema:
        """Return the schema as the source's preprocessor makes it."""
        if self._preprocessor is None:
            return schema
        return self._preprocessor.preprocess_schema(schema, key_properties=key_properties)

    @final
    def get_schema(self, key: KeyT, /, *, key_properties: Sequence[str] = ()) -> JsonSchema:
        """Return a copy of the schema of ``key``, preprocessed.

        ``key_properties`` are the names of the properties that identify a record.

        Raises:
            SchemaNotFoundError: there is none, or it cannot be read; its cause says why.
            SchemaNotValidError: what is there is not a JSON object.
        """
        if key not in self._schema_cache:
            self._schema_cache[key] = self._fetched(key)
        found = deepcopy(self._schema_cache[key])
        return self.preprocess_schema(found, key_properties=key_properties)

    def _fetched(self, key: KeyT) -> JsonSchema:
        """Fetch a schema, and say what was asked of whom when there is none."""
        try:
            schema = cast(object, self.fetch_schema(key))
        except Exception as ex:  # noqa: BLE001 - whatever it was, there is no schema
            reason = f"{type(ex).__name__}: {ex}"
            msg = f"Schema not found for '{key}' in {self!r} ({reason})"
            raise SchemaNotFoundError(msg) from _find_cause(ex)
        if not isinstance(schema, dict):
            msg = (
                f"Schema must be a JSON object: that of '{key}' in {self!r} is of the type"
                f" {type(schema).__name__}"
            )
            raise SchemaNotValidError(msg)
        return schema

    @abstractmethod
    def fetch_schema(self, key: KeyT) -> JsonSchema:
        """Find the schema of ``key``; called once for each, any exception means none."""


def _find_cause(ex: Exception) -> BaseException:
    """Return what was in the way: the error below one that only says where it happened."""
    return ex.__cause__ or ex if isinstance(ex, SchemaNotValidError) else ex


class _Keyed(Protocol):
    """What a stream must have for its schema to be found."""

    @property
    def name(self) -> str: ...

    @property
    def primary_keys(self) -> Sequence[str]: ...


class StreamSchema(Generic[KeyT]):
    """The ``schema`` of a stream class, found in a source by ``key`` or the stream's name.

    >>> class Users(Stream):
    ...     name = "users"
    ...     schema = StreamSchema(SchemaDirectory("schemas"))
    """

    def __init__(self, schema_source: SchemaSource[KeyT], *, key: KeyT | None = None) -> None:
        self.schema_source = schema_source
        self.key = key

    @overload
    def __get__(self, obj: None, objtype: type[Any]) -> Self: ...

    @overload
    def __get__(self, obj: _Keyed, objtype: type[Any]) -> JsonSchema: ...

    @final
    def __get__(self, obj: _Keyed | None, objtype: type[Any]) -> Self | JsonSchema:
        """Return the schema of a stream; the class itself has none, and gets this object."""
        if obj is None:
            return self
        resolved = vars(obj).setdefault("_resolved_schemas", {})
        asked = (self, obj.name, tuple(obj.primary_keys or ()))
        if asked not in resolved:
            resolved[asked] = self.get_stream_schema(obj, objtype)
        schema: JsonSchema = resolved[asked]
        return schema

    def get_stream_schema(
        self,
        stream: _Keyed,
        stream_class: type[Any],  # noqa: ARG002 - for overrides
    ) -> JsonSchema:
        """Find the schema of a stream; asked once for each set of its primary keys.

        Raises:
            SchemaNotFoundError: the source has none.
            SchemaNotValidError: what the source has is not a JSON object.
        """
        key = self.key or cast(KeyT, stream.name)
        return self.schema_source.get_schema(key, key_properties=stream.primary_keys or ())
