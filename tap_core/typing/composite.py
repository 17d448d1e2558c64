"""Type helpers that combine types: ``anyOf``, ``oneOf``, ``allOf`` and discriminated unions."""

from __future__ import annotations

from typing import Any, ClassVar

from tap_core.types import JsonSchema
from tap_core.typing.base import JSONTypeHelper
from tap_core.typing.properties import ObjectType, Property
from tap_core.typing.scalars import Constant

__all__ = ["AllOf", "AnyOf", "DiscriminatedUnion", "OneOf"]


class _Combination(JSONTypeHelper[Any]):
    """Base class of type helpers that combine several types by a keyword such as ``anyOf``."""

    _keyword: ClassVar[str]

    def __init__(self, *types: JSONTypeHelper[Any] | type[JSONTypeHelper[Any]]) -> None:
        super().__init__()
        self.wrapped = types

    @property
    def type_dict(self) -> JsonSchema:
        """JSON Schema as a new dict, such as ``{"anyOf": [<schema>, <schema>]}``."""
        return {self._keyword: [kind.type_dict for kind in self.wrapped]}


class AnyOf(_Combination):
    """Type of values that match at least one of the given types (``anyOf``)."""

    _keyword = "anyOf"


class OneOf(_Combination):
    """Type of values that match exactly one of the given types (``oneOf``)."""

    _keyword = "oneOf"


class AllOf(_Combination):
    """Type of values that match all of the given types (``allOf``)."""

    _keyword = "allOf"


class DiscriminatedUnion(OneOf):
    """Type of objects with several variants. The value of one property identifies the variant.

    Examples:
        >>> union = DiscriminatedUnion("species", cat=ObjectType(), dog=ObjectType())
        >>> union.type_dict["oneOf"][1]["required"]
        ['species']
    """

    def __init__(self, key: str, **options: ObjectType) -> None:
        """Create a union of object types.

        Args:
            key: Name of the property that identifies the type, such as ``species``.
            options: The type of an object for each value of this property.
        """
        self.key = key
        self.options = options
        super().__init__(
            *(_add_discriminator(key, name, option) for name, option in options.items())
        )


def _add_discriminator(key: str, value: str, option: ObjectType) -> ObjectType:
    """Return a copy of an object type, with a property ``key`` that must equal ``value``."""
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
