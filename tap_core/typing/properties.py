"""Type helpers for objects, their properties, and arrays.

A property that is not required allows null: ``"null"`` is appended to its type, but not to its
``enum``. Keywords of a property override those of its type. The type itself is never changed, so
several properties can share it.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from tap_core.types import JsonSchema
from tap_core.typing.base import JSONTypeHelper, T
from tap_core.typing.inspect import (
    JSONSCHEMA_ANNOTATION_SECRET,
    JSONSCHEMA_ANNOTATION_WRITEONLY,
    append_type,
)

__all__ = ["ArrayType", "ObjectType", "PropertiesList", "Property"]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""JSON Schema version of a `PropertiesList`: the value of the keyword ``$schema``."""

_W = TypeVar("_W", bound=JSONTypeHelper[Any])

_AnyType: TypeAlias = JSONTypeHelper[Any] | type[JSONTypeHelper[Any]]


class ArrayType(JSONTypeHelper[list[Any]], Generic[_W]):
    """Type of arrays whose items all have the same type.

    Args:
        wrapped_type: Type of the items.
        kwargs: Arguments of `JSONTypeHelper`.
    """

    def __init__(self, wrapped_type: _W | type[_W], **kwargs: Any) -> None:
        self.wrapped_type = wrapped_type
        super().__init__(**kwargs)

    @property
    def type_dict(self) -> JsonSchema:
        """JSON Schema as a new dict, such as ``{"type": "array", "items": <schema>}``."""
        kind = ["array", "null"] if self.nullable else "array"
        return {"type": kind, "items": self.wrapped_type.type_dict, **self.extras}


class Property(JSONTypeHelper[T], Generic[T]):
    """Property of an object: its name, type, description and other JSON Schema keywords.

    Examples:
        >>> Property("name", JSONTypeHelper, True).optional
        False
    """

    def __init__(
        self,
        name: str,
        wrapped: JSONTypeHelper[T] | type[JSONTypeHelper[T]],
        required: bool = False,
        default: T | None = None,
        description: str | None = None,
        secret: bool | None = False,
        allowed_values: list[T] | None = None,
        examples: list[T] | None = None,
        *,
        nullable: bool | None = None,
        title: str | None = None,
        deprecated: bool | None = None,
        requires_properties: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        """Create a property of an object.

        Args:
            name: Name of the property.
            wrapped: Type of the values.
            required: True if objects must have the property. False also makes the property
                nullable.
            default: Value of the keyword ``default``. A setting that the user does not set gets
                this value.
            description: Description for users.
            secret: True for credentials; sets the keywords ``secret`` and ``writeOnly``.
            allowed_values: Values of the keyword ``enum``.
            examples: Values of the keyword ``examples``.
            nullable: True to allow null although the property is required.
            title: Short label for users.
            deprecated: True if the property should no longer be used.
            requires_properties: Names of properties that are required if this one is present.
            kwargs: Further JSON Schema keywords.
        """
        super().__init__(
            allowed_values=allowed_values or None,
            examples=examples or None,
            nullable=nullable,
        )
        self.name = name
        self.wrapped = wrapped
        self.optional: bool = not required
        self.default = default
        self.description = description
        self.secret = secret
        self.title = title
        self.deprecated = deprecated
        self.requires_properties = requires_properties
        self.kwargs = kwargs

    @property
    def type_dict(self) -> JsonSchema:
        """JSON Schema of the type as a new dict, without the keywords that the property adds.

        Raises:
            ValueError: The type is a class that needs arguments, such as the bare ``ObjectType``.
        """
        schema = self.wrapped.type_dict
        if not isinstance(schema, Mapping):
            name = getattr(self.wrapped, "__name__", repr(self.wrapped))
            msg = f"{name} requires arguments: write {name}(...)"
            raise ValueError(msg)  # noqa: TRY004 - what authors of taps catch
        return dict(schema)

    def to_dict(self) -> JsonSchema:
        """Return a dict with the property's JSON Schema under its name: ``{"id": {"type": …}}``."""
        schema = self.type_dict
        if self.title:
            schema["title"] = self.title
        if self.nullable or self.optional:
            schema = append_type(schema, "null")
        return {self.name: {**schema, **self._keywords(), **self.kwargs}}

    def _keywords(self) -> JsonSchema:
        """Return the JSON Schema keywords that the property sets in addition to its type."""
        secret = True if self.secret else None
        keywords = {
            "default": self.default,
            "description": self.description or None,
            JSONSCHEMA_ANNOTATION_SECRET: secret,
            JSONSCHEMA_ANNOTATION_WRITEONLY: secret,
            "enum": self.allowed_values,
            "examples": self.examples,
            "deprecated": self.deprecated,
        }
        return {keyword: value for keyword, value in keywords.items() if value is not None}


class ObjectType(JSONTypeHelper[Any]):
    """Type of objects with named properties.

    Examples:
        >>> ObjectType(additional_properties=False).type_dict
        {'type': 'object', 'properties': {}, 'additionalProperties': False}
    """

    def __init__(
        self,
        *properties: Property[Any],
        additional_properties: _AnyType | bool | None = True,
        pattern_properties: Mapping[str, _AnyType] | None = None,
        **kwargs: Any,
    ) -> None:
        """Create an object type.

        Args:
            properties: Declared properties.
            additional_properties: Type of undeclared properties, or False to forbid them. None
                omits the keyword.
            pattern_properties: Types of undeclared properties, by regular expression of the name.
            kwargs: Arguments of `JSONTypeHelper`.
        """
        self.wrapped: dict[str, Property[Any]] = {
            declared.name: declared for declared in properties
        }
        self.additional_properties = additional_properties
        self.pattern_properties = pattern_properties
        super().__init__(**kwargs)

    @property
    def type_dict(self) -> JsonSchema:
        """JSON Schema as a new dict with ``type``, ``properties``, ``required`` and so on."""
        parts = self.wrapped.values()
        properties: JsonSchema = {}
        for part in parts:
            properties.update(part.to_dict())
        optional = {
            "required": [part.name for part in parts if not part.optional],
            "dependentRequired": {
                part.name: part.requires_properties for part in parts if part.requires_properties
            },
        }
        return {
            "type": ["object", "null"] if self.nullable else "object",
            "properties": properties,
            **{keyword: value for keyword, value in optional.items() if value},
            **self._undeclared_keywords(),
        }

    def _undeclared_keywords(self) -> JsonSchema:
        """Return a dict with ``additionalProperties`` and ``patternProperties``, if set."""
        undeclared, patterns = self.additional_properties, self.pattern_properties
        result: JsonSchema = {}
        if undeclared is not None:
            result["additionalProperties"] = (
                undeclared if isinstance(undeclared, bool) else undeclared.type_dict
            )
        if patterns:
            result["patternProperties"] = {
                pattern: kind.type_dict for pattern, kind in patterns.items()
            }
        return result


class PropertiesList(ObjectType):
    """Top-level schema, for the records of a stream or the config of a plugin.

    Iteration yields the properties, and `append` adds a property.
    """

    def __init__(
        self,
        *args: Property[Any],
        additional_properties: _AnyType | bool | None = None,
        **kwargs: Any,
    ) -> None:
        """Create a schema from properties; ``additionalProperties`` is omitted by default.

        The arguments are those of `ObjectType`.
        """
        super().__init__(*args, additional_properties=additional_properties, **kwargs)

    def items(self) -> ItemsView[str, Property[Any]]:
        """Return a view of the (name, property) pairs, in the order of declaration."""
        return self.wrapped.items()

    def append(self, property: Property[Any]) -> None:
        """Add a property; a property with the same name is replaced."""
        self.wrapped[property.name] = property

    @property
    def type_dict(self) -> JsonSchema:
        """JSON Schema of the object as a new dict, with the keyword ``$schema``."""
        return {**super().type_dict, "$schema": _DIALECT}

    def __iter__(self) -> Iterator[Property[Any]]:
        """Return an iterator over the properties, in the order of declaration."""
        return iter(self.wrapped.values())
