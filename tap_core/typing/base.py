"""Base class of all type helpers, and the descriptor that lets classes act as instances.

``type_dict`` returns a new dictionary on each access. A helper that needs no arguments can
be used as a class: ``StringType.type_dict`` equals ``StringType().type_dict``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

from tap_core.types import JsonSchema

__all__ = ["DefaultInstanceProperty", "JSONTypeHelper", "JsonValue", "T"]

JsonValue: TypeAlias = str | int | float | bool | list[Any] | dict[str, Any] | None
"""Python types of JSON values."""

T = TypeVar("T", bound=JsonValue)
_P = TypeVar("_P")


class DefaultInstanceProperty:
    """Property that, read on the class, uses an instance created without arguments."""

    def __init__(self, fget: Callable[[Any], Any]) -> None:
        """Store the getter, and its docstring for ``help()``."""
        self.fget = fget
        self.__doc__ = fget.__doc__

    def __get__(self, instance: _P | None, owner: type[_P]) -> Any:
        """Return the value of the instance, or of a default instance of the class."""
        return self.fget(owner() if instance is None else instance)


class JSONTypeHelper(Generic[T]):
    """Base class of type helpers; subclasses implement ``type_dict``."""

    def __init__(
        self,
        *,
        allowed_values: list[T] | None = None,
        examples: list[T] | None = None,
        nullable: bool | None = None,
    ) -> None:
        """Store the keywords of all types: ``enum``, ``examples`` and nullability."""
        self.allowed_values = allowed_values
        self.examples = examples
        self.nullable = nullable

    @DefaultInstanceProperty
    def type_dict(self) -> JsonSchema:
        """The JSON Schema of the type."""
        raise NotImplementedError

    @property
    def extras(self) -> JsonSchema:
        """The ``enum`` and ``examples`` keywords, if set."""
        found = {"enum": self.allowed_values, "examples": self.examples}
        return {keyword: values for keyword, values in found.items() if values}

    def to_dict(self) -> JsonSchema:
        """Return the JSON Schema of the type."""
        schema: JsonSchema = self.type_dict
        return schema

    def to_json(self, **kwargs: Any) -> str:
        """Return the JSON Schema as text; ``kwargs`` are arguments of `json.dumps`."""
        return json.dumps(self.to_dict(), **kwargs)

    def _named(self, name: str) -> list[str]:
        return [name, "null"] if self.nullable else [name]
