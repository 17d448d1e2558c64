"""Type helpers for scalars: text and its formats, numbers, booleans, null, any value.

``type`` is a list (``["string"]``), with ``"null"`` last if the type is nullable. Keywords
that are not set are omitted.
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
    """Text type; subclasses are text with a ``format``, such as date-times.

    >>> StringType(max_length=10, nullable=True).type_dict
    {'type': ['string', 'null'], 'maxLength': 10}
    """

    string_format: str | None = None
    """Value of the keyword ``format``; None for text without a format."""

    def __init__(
        self,
        *,
        min_length: int | None = None,
        max_length: int | None = None,
        pattern: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Create a text type.

        Args:
            min_length: Minimum length in characters.
            max_length: Maximum length in characters.
            pattern: Regular expression that the text must match.
            kwargs: Arguments of `JSONTypeHelper`.
        """
        super().__init__(**kwargs)
        self.min_length = min_length
        self.max_length = max_length
        self.pattern = pattern

    @DefaultInstanceProperty
    def type_dict(self) -> JsonSchema:
        """JSON Schema of the text, as a new dict."""
        format_ = {"format": self.string_format} if self.string_format else {}
        bounds = _build_keywords(
            maxLength=self.max_length,
            minLength=self.min_length,
            pattern=self.pattern,
        )
        return {"type": self._type_names("string"), **format_, **self.extras, **bounds}


class DateTimeType(StringType):
    """Date-time, such as ``2018-11-13T20:20:39+00:00``."""

    string_format = "date-time"


class TimeType(StringType):
    """Time of day, such as ``20:20:39+00:00``."""

    string_format = "time"


class DateType(StringType):
    """Date, such as ``2018-11-13``."""

    string_format = "date"


class DurationType(StringType):
    """ISO 8601 duration, such as ``P3D``."""

    string_format = "duration"


class EmailType(StringType):
    """E-mail address."""

    string_format = "email"


class IDNEmailType(StringType):
    """E-mail address with characters beyond ASCII."""

    string_format = "idn-email"


class HostnameType(StringType):
    """Host name, such as ``example.com``."""

    string_format = "hostname"


class IDNHostnameType(StringType):
    """Host name with characters beyond ASCII."""

    string_format = "idn-hostname"


class IPv4Type(StringType):
    """IPv4 address, such as ``127.0.0.1``."""

    string_format = "ipv4"


class IPv6Type(StringType):
    """IPv6 address, such as ``::1``."""

    string_format = "ipv6"


class UUIDType(StringType):
    """UUID, such as ``3e4666bf-d5e5-4aa7-b8ce-cefe41c7568a``."""

    string_format = "uuid"


class URIType(StringType):
    """URI, such as ``https://example.com/a``."""

    string_format = "uri"


class IRIType(StringType):
    """URI with characters beyond ASCII (IRI)."""

    string_format = "iri"


class URIReferenceType(StringType):
    """URI, or a reference relative to one, such as ``/a``."""

    string_format = "uri-reference"


class IRIReferenceType(StringType):
    """IRI, or a reference relative to one."""

    string_format = "iri-reference"


class URITemplateType(StringType):
    """URI with variables in braces, such as ``/users/{id}``."""

    string_format = "uri-template"


class JSONPointerType(StringType):
    """JSON Pointer, such as ``/a/0``."""

    string_format = "json-pointer"


class RelativeJSONPointerType(StringType):
    """Relative JSON Pointer, such as ``1/a``."""

    string_format = "relative-json-pointer"


class RegexType(StringType):
    """Regular expression."""

    string_format = "regex"


class SingerDecimalType(StringType):
    """Decimal number encoded as text without loss of digits."""

    string_format = "singer.decimal"


class BooleanType(JSONTypeHelper[bool]):
    """Boolean."""

    @DefaultInstanceProperty
    def type_dict(self) -> JsonSchema:
        """JSON Schema of the boolean, as a new dict."""
        return {"type": self._type_names("boolean"), **self.extras}


class _NumericType(JSONTypeHelper[T]):
    """Base class of the integer and number types."""

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
            exclusive_minimum: Value that all allowed values exceed.
            exclusive_maximum: Value that exceeds all allowed values.
            multiple_of: Number of which all allowed values are multiples.
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
        """JSON Schema of the number, as a new dict."""
        bounds = _build_keywords(
            minimum=self.minimum,
            maximum=self.maximum,
            exclusiveMinimum=self.exclusive_minimum,
            exclusiveMaximum=self.exclusive_maximum,
            multipleOf=self.multiple_of,
        )
        return {"type": self._type_names(self.__type_name__), **self.extras, **bounds}


class IntegerType(_NumericType[int]):
    """Integer of any size.

    >>> IntegerType(minimum=0, maximum=10).type_dict
    {'type': ['integer'], 'minimum': 0, 'maximum': 10}
    """

    __type_name__ = "integer"


class DecimalType(_NumericType[float]):
    """Integer or fractional number: the JSON Schema type ``number``."""

    __type_name__ = "number"


class NumberType(DecimalType):
    """Older name of `DecimalType`, kept for existing code."""


class NullType(JSONTypeHelper[None]):
    """The value null."""

    @DefaultInstanceProperty
    def type_dict(self) -> JsonSchema:
        """JSON Schema of null, as a new dict."""
        return {"type": "null"}


class AnyType(JSONTypeHelper[Any]):
    """Any value; the schema has no type."""

    @DefaultInstanceProperty
    def type_dict(self) -> JsonSchema:
        """JSON Schema without a type: only ``enum`` and ``examples``, if set."""
        return self.extras


class Constant(JSONTypeHelper[Any]):
    """Type that allows only one value."""

    def __init__(self, value: JsonValue) -> None:
        """Store the only allowed value."""
        super().__init__()
        self.value = value

    @property
    def type_dict(self) -> JsonSchema:
        """JSON Schema with the keyword ``const``, as a new dict."""
        return {"const": self.value}


class CustomType(JSONTypeHelper[Any]):
    """Type given as a JSON Schema dict, for schemas that the other helpers cannot express."""

    def __init__(self, jsonschema_type_dict: JsonSchema) -> None:
        """Store the JSON Schema, which is never changed."""
        super().__init__()
        self._jsonschema_type_dict = jsonschema_type_dict

    @property
    def type_dict(self) -> JsonSchema:
        """The JSON Schema dict that was passed to the constructor."""
        return self._jsonschema_type_dict


def _build_keywords(**keywords: Any) -> JsonSchema:
    """Return a dict of the keywords whose value is not None."""
    return {keyword: value for keyword, value in keywords.items() if value is not None}
