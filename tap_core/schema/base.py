"""Schema sources, and the descriptor that gives a stream its schema by name.

- A source fetches each schema once. Each caller gets a separate copy.
- A stream resolves its schema once per set of primary keys, which an input catalog may change.
  An author's changes to that dict affect only the stream.
- Errors name the source and the key and have the original error as their cause.
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
    """Interface of objects that convert a fetched schema before a stream uses it."""

    def preprocess_schema(
        self, schema: JsonSchema, *, key_properties: Sequence[str] = ()
    ) -> JsonSchema:
        """Return the schema for the stream to use; ``schema`` may be changed in place.

        Args:
            schema: Schema as fetched from the schema source.
            key_properties: Names of the stream's primary key properties.
        """
        ...


class SchemaSource(ABC, Generic[KeyT]):
    """Base class of schema sources, which look up a stream's schema by a key.

    Subclasses override `fetch_schema`.
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
        """Return the schema converted by the preprocessor.

        Without a preprocessor, return it unchanged.
        """
        if self._preprocessor is None:
            return schema
        return self._preprocessor.preprocess_schema(schema, key_properties=key_properties)

    @final
    def get_schema(self, key: KeyT, /, *, key_properties: Sequence[str] = ()) -> JsonSchema:
        """Return a preprocessed copy of the schema stored under a key.

        Args:
            key: Key of the schema, usually the name of the stream.
            key_properties: Names of the stream's primary key properties.

        Raises:
            SchemaNotFoundError: The schema does not exist or cannot be read. The error's cause has
                the details.
            SchemaNotValidError: The schema is not a JSON object.
        """
        if key not in self._schema_cache:
            self._schema_cache[key] = self._fetched(key)
        schema = deepcopy(self._schema_cache[key])
        return self.preprocess_schema(schema, key_properties=key_properties)

    def _fetched(self, key: KeyT) -> JsonSchema:
        """Fetch a schema by `fetch_schema`, and check that it is a JSON object.

        Raises:
            SchemaNotFoundError: `fetch_schema` has raised any exception.
            SchemaNotValidError: The schema is not a JSON object.
        """
        try:
            schema = cast(object, self.fetch_schema(key))
        except Exception as ex:  # noqa: BLE001 - any error means "not found"
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
        """Return the schema stored under a key.

        The result is cached, so this is called once per key. If an exception of any type is raised,
        the schema counts as not found.
        """


def _find_cause(ex: Exception) -> BaseException:
    """Return the exception to report as the reason for an unreadable schema.

    A `SchemaNotValidError` that has a cause is replaced by the cause. Any other error is returned.
    """
    return ex.__cause__ or ex if isinstance(ex, SchemaNotValidError) else ex


class StreamSchema(Generic[KeyT]):
    """Descriptor that gives a stream class its ``schema`` from a schema source.

    Args:
        schema_source: Source of the schema.
        key: Key of the schema in the source; by default the stream's name.

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
        asked = (self, obj.name, tuple(obj.primary_keys or ()))
        if asked not in resolved:
            resolved[asked] = self.get_stream_schema(obj, objtype)
        schema: JsonSchema = resolved[asked]
        return schema

    def get_stream_schema(
        self,
        stream: Any,
        stream_class: type[Any],  # noqa: ARG002 - for overrides
    ) -> JsonSchema:
        """Return the schema of a stream; override to compute the key differently.

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
