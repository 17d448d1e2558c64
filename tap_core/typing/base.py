"""The base of all type helpers, and the descriptor that makes classes and objects alike.

Rules of the room: a helper is a recipe; ``type_dict`` makes a new dictionary each time.
Where a helper needs no argument its class can be used in place of an object:
``StringType.type_dict`` is ``StringType().type_dict``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

from tap_core.types import JsonSchema

__all__ = ["DefaultInstanceProperty", "JSONTypeHelper", "JsonValue", "T"]

JsonValue: TypeAlias = str | int | float | bool | list[Any] | dict[str, Any] | None
"""What JSON can hold."""

T = TypeVar("T", bound=JsonValue)
_P = TypeVar("_P")


class DefaultInstanceProperty:
    """A property that, read on the class, is that of an object made without arguments."""

    def __init__(self, fget: Callable[[Any], Any]) -> None:
        """Keep the function, and its docstring for ``help()``."""
        self.fget = fget
        self.__doc__ = fget.__doc__

    def __get__(self, instance: _P | None, owner: type[_P]) -> Any:
        """Return the value for this object, or for a default one of the class."""
        return self.fget(owner() if instance is None else instance)


class JSONTypeHelper(Generic[T]):
    """Describes a type of JSON values; subclasses give ``type_dict``."""

    def __init__(
        self,
        *,
        allowed_values: list[T] | None = None,
        examples: list[T] | None = None,
        nullable: bool | None = None,
    ) -> None:
        """Take what every type can have: an ``enum``, ``examples``, and null."""
        self.allowed_values = allowed_values
        self.examples = examples
        self.nullable = nullable

    @DefaultInstanceProperty
    def type_dict(self) -> JsonSchema:
        """The JSON Schema of the type."""
        raise NotImplementedError

    @property
    def extras(self) -> JsonSchema:
        """The ``enum`` and ``examples`` keywords, where given."""
        found = {"enum": self.allowed_values, "examples": self.examples}
        return {keyword: values for keyword, values in found.items() if values}

    def to_dict(self) -> JsonSchema:
        """Return the JSON Schema of the type."""
        schema: JsonSchema = self.type_dict
        return schema

    def to_json(self, **kwargs: Any) -> str:
        """Return the JSON Schema as text; ``kwargs`` are those of `json.dumps`."""
        return json.dumps(self.to_dict(), **kwargs)

    def _named(self, name: str) -> list[str]:
        return [name, "null"] if self.nullable else [name]
