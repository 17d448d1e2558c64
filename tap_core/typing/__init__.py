"""Type helpers, which describe a JSON Schema in Python: ``from tap_core import typing as th``.

    schema = th.PropertiesList(
        th.Property("id", th.IntegerType, required=True),
        th.Property("tags", th.ArrayType(th.StringType)),
    ).to_dict()

``DEFAULT_JSONSCHEMA_VALIDATOR`` is created on first access, because ``jsonschema`` is slow to
import.
"""

from __future__ import annotations

from tap_core.typing.base import (
    DefaultInstanceProperty,
    JSONTypeHelper,
)
from tap_core.typing.composite import (
    AllOf,
    AnyOf,
    DiscriminatedUnion,
    OneOf,
)
from tap_core.typing.inspect import (
    JSONSCHEMA_ANNOTATION_SECRET,
    JSONSCHEMA_ANNOTATION_WRITEONLY,
    append_type,
    get_datelike_property_type,
)
from tap_core.typing.properties import (
    ArrayType,
    ObjectType,
    PropertiesList,
    Property,
)
from tap_core.typing.scalars import (
    AnyType,
    BooleanType,
    Constant,
    CustomType,
    DateTimeType,
    DateType,
    DecimalType,
    DurationType,
    EmailType,
    HostnameType,
    IDNEmailType,
    IDNHostnameType,
    IntegerType,
    IPv4Type,
    IPv6Type,
    IRIReferenceType,
    IRIType,
    JSONPointerType,
    NullType,
    NumberType,
    RegexType,
    RelativeJSONPointerType,
    SingerDecimalType,
    StringType,
    TimeType,
    URIReferenceType,
    URITemplateType,
    URIType,
    UUIDType,
)
from tap_core.typing.sql import (
    admits_type as _jsonschema_type_check,  # noqa: F401  the name that SQL plugins import
)
from tap_core.typing.sql import (
    to_jsonschema_type,
    to_sql_type,
)
from tap_core.typing.validators import __getattr__ as __getattr__
from tap_core.typing.validators import (
    extend_validator_with_defaults,
)

__all__ = [
    "JSONSCHEMA_ANNOTATION_SECRET",
    "JSONSCHEMA_ANNOTATION_WRITEONLY",
    "AllOf",
    "AnyOf",
    "AnyType",
    "ArrayType",
    "BooleanType",
    "Constant",
    "CustomType",
    "DateTimeType",
    "DateType",
    "DecimalType",
    "DefaultInstanceProperty",
    "DiscriminatedUnion",
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
    "JSONTypeHelper",
    "NullType",
    "NumberType",
    "ObjectType",
    "OneOf",
    "PropertiesList",
    "Property",
    "RegexType",
    "RelativeJSONPointerType",
    "SingerDecimalType",
    "StringType",
    "TimeType",
    "URIReferenceType",
    "URITemplateType",
    "URIType",
    "UUIDType",
    "append_type",
    "extend_validator_with_defaults",
    "get_datelike_property_type",
    "to_jsonschema_type",
    "to_sql_type",
]
