"""Base class of schema sources, and `StreamSchema`, which assigns a schema to a stream class.

- A source fetches each schema once. Each caller gets a separate copy.
- A stream gets its schema once per value of ``primary_keys``, which an input catalog may change.
  If a tap changes the dict, only that stream is affected.
- Error messages name the source and the key. The original error is the error's cause.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Generic, Protocol, cast, final, overload

from tap_core.exceptions import SchemaNotFoundError, SchemaNotValidError, SingerSDKError
from tap_core.types import JsonSchema

if TYPE_CHECKING:
    from typing_extensions import Self, TypeVar

    KeyT = TypeVar("KeyT", bound=Hashable, default=str)
else:  # a default needs Python 3.13; only type checkers read it
    from typing import TypeVar

    KeyT = TypeVar("KeyT", bound=Hashable)

__all__ = ["KeyT", "SchemaPreprocessor", "SchemaSource", "StreamSchema"]


class SchemaPreprocessor(Protocol):
    """Interface of objects that convert a fetched schema, such as OpenAPI to JSON Schema."""

    def preprocess_schema(
        self, schema: JsonSchema, *, key_properties: Sequence[str] = ()
    ) -> JsonSchema:
        """Return the JSON Schema for a fetched schema, which may be changed in place.

        Args:
            schema: Schema as fetched from the schema source.
            key_properties: Names of the stream's primary key properties.
        """
        ...


class SchemaSource(ABC, Generic[KeyT]):
    """Base class of schema sources, which return a stream's schema for a key.

    The key is usually the stream's name. Subclasses override `fetch_schema`.
    """

    def __init__(self) -> None:
        self._schema_cache: dict[KeyT, JsonSchema] = {}
        self._preprocessor: SchemaPreprocessor | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @final
    def preprocess_schema(
        self, schema: JsonSchema, *, key_properties: Sequence[str] = ()
    ) -> JsonSchema:
        """Convert a schema fetched from the source to JSON Schema, if a preprocessor is configured.

        Without a preprocessor, return the schema unchanged. See `SchemaPreprocessor`.
        """
        if self._preprocessor is None:
            return schema
        return self._preprocessor.preprocess_schema(schema, key_properties=key_properties)

    @final
    def get_schema(self, key: KeyT, /, *, key_properties: Sequence[str] = ()) -> JsonSchema:
        """Return a copy of the schema for a key, converted by the preprocessor.

        Args:
            key: Key of the schema, usually the name of the stream.
            key_properties: Names of the stream's primary key properties.

        Raises:
            SchemaNotFoundError: The schema does not exist or cannot be read. The error's cause has
                the details.
            SchemaNotValidError: The schema is not a JSON object, or cannot be converted. The
                error's cause has the details.
        """
        if key not in self._schema_cache:
            self._schema_cache[key] = self._fetch_object(key)
        schema = deepcopy(self._schema_cache[key])
        try:
            return self.preprocess_schema(schema, key_properties=key_properties)
        except SingerSDKError:
            raise
        except Exception as ex:
            reason = f"{type(ex).__name__}: {ex}"
            msg = f"The preprocessor cannot convert the schema of '{key}' in {self!r} ({reason})"
            raise SchemaNotValidError(msg) from ex

    def _fetch_object(self, key: KeyT) -> JsonSchema:
        """Return the result of `fetch_schema`, after a check that it is a JSON object.

        Raises:
            SchemaNotFoundError: `fetch_schema` raised an exception of any type.
            SchemaNotValidError: The schema is not a JSON object.
        """
        try:
            schema = cast(object, self.fetch_schema(key))
        except Exception as ex:  # noqa: BLE001 - any error means "not found"
            reason = f"{type(ex).__name__}: {ex}"
            msg = f"Schema not found for '{key}' in {self!r} ({reason})"
            cause = ex.__cause__ if isinstance(ex, SchemaNotValidError) else None
            raise SchemaNotFoundError(msg) from cause or ex
        if not isinstance(schema, dict):
            msg = (
                f"Schema must be a JSON object: that of '{key}' in {self!r} is of the type"
                f" {type(schema).__name__}"
            )
            raise SchemaNotValidError(msg)
        return schema

    @abstractmethod
    def fetch_schema(self, key: KeyT) -> JsonSchema:
        """Return the schema for a key, read from a file or another source.

        The result is cached, so the method is called once per key. If it raises an exception of any
        type, `get_schema` raises `SchemaNotFoundError`.
        """


class StreamSchema(Generic[KeyT]):
    """Descriptor for the attribute ``schema`` of a stream class, which reads a schema source.

    Args:
        schema_source: Source of the schema.
        key: Key of the schema in the source; by default the stream's name.

    Examples:
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
    def __get__(self, obj: Any, objtype: type[Any]) -> JsonSchema: ...

    @final
    def __get__(self, obj: Any, objtype: type[Any]) -> Self | JsonSchema:
        """Return the stream's schema, or this descriptor if accessed on the class."""
        if obj is None:
            return self
        resolved = vars(obj).setdefault("_resolved_schemas", {})
        key = (self, obj.name, tuple(obj.primary_keys or ()))
        if key not in resolved:
            resolved[key] = self.get_stream_schema(obj, objtype)
        schema: JsonSchema = resolved[key]
        return schema

    def get_stream_schema(
        self,
        stream: Any,
        stream_class: type[Any],  # noqa: ARG002 - for overrides
    ) -> JsonSchema:
        """Return the schema of a stream; override this method to choose another key.

        The result is cached until the stream's primary keys change.

        Args:
            stream: The stream.
            stream_class: Class of the stream.

        Raises:
            SchemaNotFoundError: The source does not have the schema.
            SchemaNotValidError: The schema is not a JSON object.
        """
        key = self.key or cast(KeyT, stream.name)
        return self.schema_source.get_schema(key, key_properties=stream.primary_keys or ())
