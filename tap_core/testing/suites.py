"""Standard test suites for taps, streams, properties and targets.

The order of the tests in a suite is the order in which pytest runs them.
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
    """List of test templates of one kind, which become the test methods of a generated class.

    Args:
        kind: Kind of the tests. ``tap`` and ``target`` tests run once, ``tap_stream`` tests once
            per stream, ``tap_stream_attribute`` tests once per matching property.
        tests: Template classes; a template becomes the method ``test_<kind>_<name>``.
    """

    kind: Literal["tap", "tap_stream", "tap_stream_attribute", "target"]
    tests: list[type[_T]]


tap_tests: SingerTestSuite[TapTestTemplate] = SingerTestSuite(
    "tap",
    [TapCLIPrintsTest, TapDiscoveryTest, TapStreamConnectionTest, TapValidFinalStateTest],
)
"""Tests that run once per tap."""

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
"""Tests that run once per stream."""

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
"""Tests that run once per property of a stream, for the properties to which they apply."""

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
"""Tests that run once per target.

The module `target_tests` contains two more tests, which are optional.
"""


def __getattr__(name: str) -> Any:
    """Return `SingerTestSuite` for its deprecated name ``TestSuite``, and emit a warning.

    Raises:
        AttributeError: The module has no attribute of this name.
    """
    if name == "TestSuite":
        import warnings

        warnings.warn(
            "TestSuite is deprecated: it is called SingerTestSuite.",
            DeprecationWarning,
            stacklevel=2,
        )
        return SingerTestSuite
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
