"""Which tests there are, by what they test.

Rules of the room: tables only; the order is the one in which tests are run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from tap_core.testing.tap_tests import (
    AttributeIsBooleanTest,
    AttributeIsDateTimeTest,
    AttributeIsIntegerTest,
    AttributeIsNumberTest,
    AttributeIsObjectTest,
    AttributeNotNullTest,
    StreamCatalogSchemaMatchesRecordTest,
    StreamPrimaryKeysTest,
    StreamRecordMatchesStreamSchema,
    StreamRecordSchemaMatchesCatalogTest,
    StreamReturnsRecordTest,
    StreamSchemaIsValidTest,
    TapCLIPrintsTest,
    TapDiscoveryTest,
    TapStreamConnectionTest,
    TapValidFinalStateTest,
)
from tap_core.testing.target_tests import (
    TargetArrayData,
    TargetCamelcaseComplexSchema,
    TargetCamelcaseTest,
    TargetCliPrintsTest,
    TargetDuplicateRecords,
    TargetEncodedStringData,
    TargetInvalidSchemaTest,
    TargetNoPrimaryKeys,
    TargetOptionalAttributes,
    TargetPrimaryKeyUpdates,
    TargetRecordBeforeSchemaTest,
    TargetRecordMissingKeyProperty,
    TargetRecordMissingOptionalFields,
    TargetSchemaNoProperties,
    TargetSchemaUpdates,
    TargetSpecialCharsInAttributes,
)
from tap_core.testing.templates import (
    AttributeTestTemplate,
    StreamTestTemplate,
    TapTestTemplate,
    TargetTestTemplate,
    TestTemplate,
)

__all__ = [
    "SingerTestSuite",
    "tap_stream_attribute_tests",
    "tap_stream_tests",
    "tap_tests",
    "target_tests",
]

_T = TypeVar("_T", bound=TestTemplate[Any])


@dataclass(slots=True)
class SingerTestSuite(Generic[_T]):
    """Tests of one kind; the kind is part of their names."""

    kind: Literal["tap", "tap_stream", "tap_stream_attribute", "target"]
    tests: list[type[_T]]


tap_tests: SingerTestSuite[TapTestTemplate] = SingerTestSuite(
    "tap",
    [TapCLIPrintsTest, TapDiscoveryTest, TapStreamConnectionTest, TapValidFinalStateTest],
)
"""Once for a tap."""

tap_stream_tests: SingerTestSuite[StreamTestTemplate] = SingerTestSuite(
    "tap_stream",
    [
        StreamCatalogSchemaMatchesRecordTest,
        StreamRecordMatchesStreamSchema,
        StreamRecordSchemaMatchesCatalogTest,
        StreamReturnsRecordTest,
        StreamSchemaIsValidTest,
        StreamPrimaryKeysTest,
    ],
)
"""Once for each stream."""

tap_stream_attribute_tests: SingerTestSuite[AttributeTestTemplate] = SingerTestSuite(
    "tap_stream_attribute",
    [
        AttributeIsBooleanTest,
        AttributeIsDateTimeTest,
        AttributeIsIntegerTest,
        AttributeIsNumberTest,
        AttributeIsObjectTest,
        AttributeNotNullTest,
    ],
)
"""Once for each property that the test is for."""

target_tests: SingerTestSuite[TargetTestTemplate] = SingerTestSuite(
    "target",
    [
        TargetArrayData,
        TargetCamelcaseComplexSchema,
        TargetCamelcaseTest,
        TargetCliPrintsTest,
        TargetDuplicateRecords,
        TargetEncodedStringData,
        TargetInvalidSchemaTest,
        TargetNoPrimaryKeys,
        TargetOptionalAttributes,
        TargetPrimaryKeyUpdates,
        TargetRecordBeforeSchemaTest,
        TargetRecordMissingKeyProperty,
        TargetRecordMissingOptionalFields,
        TargetSchemaNoProperties,
        TargetSchemaUpdates,
        TargetSpecialCharsInAttributes,
    ],
)
"""Once for a target; two more are in `target_tests`, for those whose targets pass them."""


def __getattr__(name: str) -> Any:
    """Give what is deprecated, with a warning."""
    if name == "TestSuite":
        import warnings

        warnings.warn(
            "TestSuite is deprecated: it is called SingerTestSuite.",
            DeprecationWarning,
            stacklevel=2,
        )
        return SingerTestSuite
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
