"""Compatibility module for plugins that import ``singer_sdk.helpers._typing``.

It only re-exports names of `tap_core.records.conform`, `tap_core.typing.inspect` and
`tap_core.typing.values`. A plugin may assign its own function to ``_conform_primitive_property``,
which then converts every value of its records, or to ``_warn_unmapped_properties``.
"""

# ruff: noqa: I001  one list is easier to read than one statement per name

from __future__ import annotations

from tap_core.records.conform import (
    _conform_primitive_property as _conform_primitive_property,
    _warn_unmapped_properties as _warn_unmapped_properties,
    conform_record_data_types as conform_record_data_types,
)
from tap_core.typing.inspect import (
    JSONSCHEMA_ANNOTATION_SECRET as JSONSCHEMA_ANNOTATION_SECRET,
    JSONSCHEMA_ANNOTATION_WRITEONLY as JSONSCHEMA_ANNOTATION_WRITEONLY,
    append_type as append_type,
    get_datelike_property_type as get_datelike_property_type,
    is_array_type as is_array_type,
    is_boolean_type as is_boolean_type,
    is_date_or_datetime_type as is_date_or_datetime_type,
    is_datetime_type as is_datetime_type,
    is_integer_type as is_integer_type,
    is_null_type as is_null_type,
    is_number_type as is_number_type,
    is_object_type as is_object_type,
    is_secret_type as is_secret_type,
    is_string_array_type as is_string_array_type,
    is_string_type as is_string_type,
    is_uniform_list as is_uniform_list,
)
from tap_core.typing.values import (
    DatetimeErrorTreatmentEnum as DatetimeErrorTreatmentEnum,
    TypeConformanceLevel as TypeConformanceLevel,
    handle_invalid_timestamp_in_record as handle_invalid_timestamp_in_record,
    to_json_compatible as to_json_compatible,
)
