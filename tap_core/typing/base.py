"""Base class of the type helpers, and a descriptor for properties of both classes and instances.

A type helper without arguments can be used as a class: ``StringType.type_dict`` equals
``StringType().type_dict``. The attribute ``type_dict`` is a new dict on each access.
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
    """Property that can be read on an instance or on the class.

    If it is read on the class, a new instance is created without arguments, and the property of
    that instance is returned.
    """

    def __init__(self, fget: Callable[[Any], Any]) -> None:
        """Store the getter ``fget``. Its docstring becomes the docstring of the property."""
        self.fget = fget
        self.__doc__ = fget.__doc__

    def __get__(self, instance: _P | None, owner: type[_P]) -> Any:
        """Return the value for ``instance``; if read on the class, the value for a new instance."""
        return self.fget(owner() if instance is None else instance)


class JSONTypeHelper(Generic[T]):
    """Base class of type helpers, which are Python objects that describe a JSON Schema.

    Subclasses implement the property ``type_dict``.

    Args:
        allowed_values: Values of the keyword ``enum``.
        examples: Values of the keyword ``examples``.
        nullable: True to also allow null.
    """

    def __init__(
        self,
        *,
        allowed_values: list[T] | None = None,
        examples: list[T] | None = None,
        nullable: bool | None = None,
    ) -> None:
        self.allowed_values = allowed_values
        self.examples = examples
        self.nullable = nullable

    @DefaultInstanceProperty
    def type_dict(self) -> JsonSchema:
        """JSON Schema of the type as a new dict, such as ``{"type": ["string"]}``."""
        raise NotImplementedError

    @property
    def extras(self) -> JsonSchema:
        """Dict with the JSON Schema keywords ``enum`` and ``examples``, each only if it is set."""
        keywords = {"enum": self.allowed_values, "examples": self.examples}
        return {keyword: values for keyword, values in keywords.items() if values}

    def to_dict(self) -> JsonSchema:
        """Return the JSON Schema of the type as a dict, such as ``{"type": ["string"]}``."""
        schema: JsonSchema = self.type_dict
        return schema

    def to_json(self, **kwargs: Any) -> str:
        """Return the JSON Schema of the type as JSON text.

        Args:
            kwargs: Keyword arguments of `json.dumps`.
        """
        return json.dumps(self.to_dict(), **kwargs)

    def _type_names(self, name: str) -> list[str]:
        """Return the keyword ``type`` as a list of ``name`` and, if nullable, of ``"null"``."""
        return [name, "null"] if self.nullable else [name]
