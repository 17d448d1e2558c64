"""Type helpers for combined types: any of, one of, all of, and discriminated unions."""

from __future__ import annotations

from typing import Any, ClassVar

from tap_core.types import JsonSchema
from tap_core.typing.base import JSONTypeHelper
from tap_core.typing.properties import ObjectType, Property
from tap_core.typing.scalars import Constant

__all__ = ["AllOf", "AnyOf", "DiscriminatedUnion", "OneOf"]


class _Combination(JSONTypeHelper[Any]):
    """Base class of types that combine several types by a keyword such as ``anyOf``."""

    _keyword: ClassVar[str]

    def __init__(self, *types: JSONTypeHelper[Any] | type[JSONTypeHelper[Any]]) -> None:
        """Store the combined types."""
        super().__init__()
        self.wrapped = types

    @property
    def type_dict(self) -> JsonSchema:
        """JSON Schema with the keyword and the schemas of the combined types, as a new dict."""
        return {self._keyword: [kind.type_dict for kind in self.wrapped]}


class AnyOf(_Combination):
    """Value that matches at least one of the types."""

    _keyword = "anyOf"


class OneOf(_Combination):
    """Value that matches exactly one of the types."""

    _keyword = "oneOf"


class AllOf(_Combination):
    """Value that matches all of the types."""

    _keyword = "allOf"


class DiscriminatedUnion(OneOf):
    """Object of one of several types, identified by the value of one property.

    >>> union = DiscriminatedUnion("species", cat=ObjectType(), dog=ObjectType())
    >>> union.type_dict["oneOf"][1]["required"]
    ['species']
    """

    def __init__(self, key: str, **options: ObjectType) -> None:
        """Create a union.

        Args:
            key: Name of the property that identifies the type.
            options: Object types by the value of that property.
        """
        self.key = key
        self.options = options
        super().__init__(
            *(_add_discriminator(key, name, option) for name, option in options.items())
        )


def _add_discriminator(key: str, value: str, option: ObjectType) -> ObjectType:
    """Return an object type with the identifying property ``key`` added as its first property."""
    tag: Property[Any] = Property(
        key,
        Constant(value),
        required=True,
        description=f"Discriminator for object of type '{value}'.",
    )
    return ObjectType(
        tag,
        *option.wrapped.values(),
        additional_properties=option.additional_properties,
        pattern_properties=option.pattern_properties,
    )
