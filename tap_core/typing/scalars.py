"""Type helpers for scalar values: strings and their formats, numbers, booleans, null.

In the JSON Schemas, ``type`` is a list such as ``["string"]``, with ``"null"`` as the last item if
the type is nullable. Keywords that are not set are omitted.
Source: JSON Schema 2020-12, Validation, sections 6 and 7.3 (the formats).
"""

from __future__ import annotations

from typing import Any, ClassVar

from tap_core.types import JsonSchema
from tap_core.typing.base import DefaultInstanceProperty, JSONTypeHelper, JsonValue, T

__all__ = [
    "AnyType",
    "BooleanType",
    "Constant",
    "CustomType",
    "DateTimeType",
    "DateType",
    "DecimalType",
    "DurationType",
    "EmailType",
    "HostnameType",
    "IDNEmailType",
    "IDNHostnameType",
    "IPv4Type",
    "IPv6Type",
    "IRIReferenceType",
    "IRIType",
    "IntegerType",
    "JSONPointerType",
    "NullType",
    "NumberType",
    "RegexType",
    "RelativeJSONPointerType",
    "SingerDecimalType",
    "StringType",
    "TimeType",
    "URIReferenceType",
    "URITemplateType",
    "URIType",
    "UUIDType",
]


class StringType(JSONTypeHelper[str]):
    """Type of strings; subclasses are strings with a ``format``, such as date-times.

    Examples:
        >>> StringType(max_length=10, nullable=True).type_dict
        {'type': ['string', 'null'], 'maxLength': 10}
    """

    string_format: str | None = None
    """Value of the keyword ``format``; None for strings without a format."""

    def __init__(
        self,
        *,
        min_length: int | None = None,
        max_length: int | None = None,
        pattern: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Create a string type.

        Args:
            min_length: Minimum length in characters.
            max_length: Maximum length in characters.
            pattern: Regular expression that a value must match.
            kwargs: Arguments of `JSONTypeHelper`.
        """
        super().__init__(**kwargs)
        self.min_length = min_length
        self.max_length = max_length
        self.pattern = pattern

    @DefaultInstanceProperty
    def type_dict(self) -> JsonSchema:
        """JSON Schema as a new dict, such as ``{"type": ["string"], "maxLength": 10}``."""
        format_ = {"format": self.string_format} if self.string_format else {}
        bounds = _build_keywords(
            maxLength=self.max_length,
            minLength=self.min_length,
            pattern=self.pattern,
        )
        return {"type": self._type_names("string"), **format_, **self.extras, **bounds}


class DateTimeType(StringType):
    """Type of date-time strings, such as ``2018-11-13T20:20:39+00:00``."""

    string_format = "date-time"


class TimeType(StringType):
    """Type of time strings, such as ``20:20:39+00:00``."""

    string_format = "time"


class DateType(StringType):
    """Type of date strings, such as ``2018-11-13``."""

    string_format = "date"


class DurationType(StringType):
    """Type of ISO 8601 durations, such as ``P3D`` for three days."""

    string_format = "duration"


class EmailType(StringType):
    """Type of e-mail addresses, such as ``info@example.com``."""

    string_format = "email"


class IDNEmailType(StringType):
    """Type of e-mail addresses that may have non-ASCII characters."""

    string_format = "idn-email"


class HostnameType(StringType):
    """Type of host names, such as ``example.com``."""

    string_format = "hostname"


class IDNHostnameType(StringType):
    """Type of host names that may have non-ASCII characters."""

    string_format = "idn-hostname"


class IPv4Type(StringType):
    """Type of IPv4 addresses, such as ``127.0.0.1``."""

    string_format = "ipv4"


class IPv6Type(StringType):
    """Type of IPv6 addresses, such as ``::1``."""

    string_format = "ipv6"


class UUIDType(StringType):
    """Type of UUIDs, such as ``3e4666bf-d5e5-4aa7-b8ce-cefe41c7568a``."""

    string_format = "uuid"


class URIType(StringType):
    """Type of URIs, such as ``https://example.com/a``."""

    string_format = "uri"


class IRIType(StringType):
    """Type of IRIs, which are URIs that may have non-ASCII characters."""

    string_format = "iri"


class URIReferenceType(StringType):
    """Type of URIs and relative references, such as ``/a``."""

    string_format = "uri-reference"


class IRIReferenceType(StringType):
    """Type of IRIs (URIs that may have non-ASCII characters) and relative references."""

    string_format = "iri-reference"


class URITemplateType(StringType):
    """Type of URI templates, which have variables in braces, such as ``/users/{id}``."""

    string_format = "uri-template"


class JSONPointerType(StringType):
    """Type of JSON Pointers, such as ``/a/0``."""

    string_format = "json-pointer"


class RelativeJSONPointerType(StringType):
    """Type of relative JSON Pointers, such as ``1/a``."""

    string_format = "relative-json-pointer"


class RegexType(StringType):
    """Type of regular expressions, such as ``^[a-z]+$``."""

    string_format = "regex"


class SingerDecimalType(StringType):
    """Type of decimal numbers written as strings without loss of digits, such as ``"0.10"``."""

    string_format = "singer.decimal"


class BooleanType(JSONTypeHelper[bool]):
    """Type of the values true and false."""

    @DefaultInstanceProperty
    def type_dict(self) -> JsonSchema:
        """JSON Schema as a new dict, such as ``{"type": ["boolean"]}``."""
        return {"type": self._type_names("boolean"), **self.extras}


class _NumericType(JSONTypeHelper[T]):
    """Base class of the types for integers and numbers."""

    __type_name__: ClassVar[str]

    def __init__(
        self,
        *,
        minimum: float | None = None,
        maximum: float | None = None,
        exclusive_minimum: float | None = None,
        exclusive_maximum: float | None = None,
        multiple_of: float | None = None,
        **kwargs: Any,
    ) -> None:
        """Create a number type.

        Args:
            minimum: Lowest allowed value.
            maximum: Highest allowed value.
            exclusive_minimum: Bound that is itself not allowed; allowed values are greater.
            exclusive_maximum: Bound that is itself not allowed; allowed values are less.
            multiple_of: Number; allowed values are its multiples.
            kwargs: Arguments of `JSONTypeHelper`.
        """
        super().__init__(**kwargs)
        self.minimum = minimum
        self.maximum = maximum
        self.exclusive_minimum = exclusive_minimum
        self.exclusive_maximum = exclusive_maximum
        self.multiple_of = multiple_of

    @DefaultInstanceProperty
    def type_dict(self) -> JsonSchema:
        """JSON Schema as a new dict, such as ``{"type": ["integer"], "minimum": 0}``."""
        bounds = _build_keywords(
            minimum=self.minimum,
            maximum=self.maximum,
            exclusiveMinimum=self.exclusive_minimum,
            exclusiveMaximum=self.exclusive_maximum,
            multipleOf=self.multiple_of,
        )
        return {"type": self._type_names(self.__type_name__), **self.extras, **bounds}


class IntegerType(_NumericType[int]):
    """Type of integers of any size.

    Examples:
        >>> IntegerType(minimum=0, maximum=10).type_dict
        {'type': ['integer'], 'minimum': 0, 'maximum': 10}
    """

    __type_name__ = "integer"


class DecimalType(_NumericType[float]):
    """Type of numbers with or without a fraction; in JSON Schema, the type ``number``."""

    __type_name__ = "number"


class NumberType(DecimalType):
    """Type of numbers with or without a fraction; an older name of `DecimalType`."""


class NullType(JSONTypeHelper[None]):
    """Type that allows only null."""

    @DefaultInstanceProperty
    def type_dict(self) -> JsonSchema:
        """JSON Schema as a new dict: ``{"type": "null"}``."""
        return {"type": "null"}


class AnyType(JSONTypeHelper[Any]):
    """Type that allows any value; its JSON Schema has no keyword ``type``."""

    @DefaultInstanceProperty
    def type_dict(self) -> JsonSchema:
        """JSON Schema as a new dict: ``{}``, or ``enum`` and ``examples`` if they are set."""
        return self.extras


class Constant(JSONTypeHelper[Any]):
    """Type that allows only one value. In JSON Schema, this is the keyword ``const``."""

    def __init__(self, value: JsonValue) -> None:
        super().__init__()
        self.value = value

    @property
    def type_dict(self) -> JsonSchema:
        """JSON Schema as a new dict, such as ``{"const": "cat"}``."""
        return {"const": self.value}


class CustomType(JSONTypeHelper[Any]):
    """Type described by a JSON Schema dict, for schemas that no other type helper can describe."""

    def __init__(self, jsonschema_type_dict: JsonSchema) -> None:
        super().__init__()
        self._jsonschema_type_dict = jsonschema_type_dict

    @property
    def type_dict(self) -> JsonSchema:
        """JSON Schema dict that was passed to the constructor (not a copy)."""
        return self._jsonschema_type_dict


def _build_keywords(**keywords: Any) -> JsonSchema:
    """Return the arguments as a dict of JSON Schema keywords, without None."""
    return {keyword: value for keyword, value in keywords.items() if value is not None}
