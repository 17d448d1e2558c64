"""Standard tests of a target, with ordinary and unusual input.

Names of classes, tests, streams and properties are those of singer_sdk (version 0.54),
because authors subclass the tests and query the loaded tables. A test without a ``test``
method only checks that the target processes its input without an error.
"""

from __future__ import annotations

import pytest

from tap_core.exceptions import MissingKeyPropertiesError, RecordsWithoutSchemaException
from tap_core.testing.templates import TargetFileTestTemplate, TargetTestTemplate

__all__ = [
    "TargetArrayData",
    "TargetCamelcaseComplexSchema",
    "TargetCamelcaseTest",
    "TargetCliPrintsTest",
    "TargetDuplicateRecords",
    "TargetEncodedStringData",
    "TargetInvalidSchemaTest",
    "TargetMultipleStateMessages",
    "TargetNoPrimaryKeys",
    "TargetOptionalAttributes",
    "TargetPrimaryKeyUpdates",
    "TargetRecordBeforeSchemaTest",
    "TargetRecordMissingKeyProperty",
    "TargetRecordMissingOptionalFields",
    "TargetRecordMissingRequiredProperty",
    "TargetSchemaNoProperties",
    "TargetSchemaUpdates",
    "TargetSpecialCharsInAttributes",
]

_STATES = ((1, 0), (2, 1), (3, 2), (5, 3), (5, 6))
"""The states of the two streams in the input of `TargetMultipleStateMessages`."""


class TargetArrayData(TargetFileTestTemplate):
    """Arrays of strings."""

    name = "array_data"


class TargetCamelcaseComplexSchema(TargetFileTestTemplate):
    """A wide schema with mixed-case names that changes before the first record."""

    name = "camelcase_complex_schema"


class TargetCamelcaseTest(TargetFileTestTemplate):
    """A stream and properties with mixed-case names."""

    name = "camelcase"


class TargetCliPrintsTest(TargetTestTemplate):
    """The target prints its version and its description."""

    name = "cli_prints"

    def test(self) -> None:
        """Call the methods behind ``--version`` and ``--about``."""
        self.target.print_version()
        self.target.print_about()
        self.target.print_about(output_format="json")


class TargetDuplicateRecords(TargetFileTestTemplate):
    """Several records per key; the last record of each key is the newest."""

    name = "duplicate_records"


class TargetEncodedStringData(TargetFileTestTemplate):
    """Text in many scripts, with quotes, escapes and control characters, also nested."""

    name = "encoded_string_data"


class TargetInvalidSchemaTest(TargetFileTestTemplate):
    """A schema without properties is rejected."""

    name = "invalid_schema"

    def test(self) -> None:
        """Expect an exception of any type."""
        with pytest.raises(Exception):  # noqa: B017, PT011 - a target may have its own
            super().test()


class TargetMultipleStateMessages(TargetFileTestTemplate):
    """States are emitted unchanged and in order, and the newest state is emitted last."""

    name = "multiple_state_messages"

    def test(self) -> None:
        """Check that the emitted states are a subsequence of the input that ends with its last."""
        self.runner.sync_all()
        streams = ("test_multiple_state_messages_a", "test_multiple_state_messages_b")
        came = [dict(zip(streams, each, strict=True)) for each in _STATES]
        left = self.runner.state_messages
        coming = iter(came)
        if left[-1:] != came[-1:] or not all(state in coming for state in left):
            raise AssertionError(f"Expected states from {came}, but the target emitted {left}.")


class TargetNoPrimaryKeys(TargetFileTestTemplate):
    """A stream without primary keys."""

    name = "no_primary_keys"


class TargetOptionalAttributes(TargetFileTestTemplate):
    """Records with and without a property that is not required."""

    name = "optional_attributes"


class TargetPrimaryKeyUpdates(TargetFileTestTemplate):
    """A schema that is sent again with other keys."""

    name = "pk_updates"


class TargetRecordBeforeSchemaTest(TargetFileTestTemplate):
    """A record without a preceding schema is rejected."""

    name = "record_before_schema"

    def test(self) -> None:
        """Expect a `RecordsWithoutSchemaException`."""
        with pytest.raises(RecordsWithoutSchemaException):
            super().test()


class TargetRecordMissingKeyProperty(TargetFileTestTemplate):
    """A record without its key property is rejected."""

    name = "record_missing_key_property"

    def test(self) -> None:
        """Expect a `MissingKeyPropertiesError`."""
        with pytest.raises(MissingKeyPropertiesError):
            super().test()


class TargetRecordMissingOptionalFields(TargetFileTestTemplate):
    """Records that have only the required properties."""

    name = "record_missing_fields"


class TargetRecordMissingRequiredProperty(TargetFileTestTemplate):
    """A record without a required property that is not a key; for targets that accept it."""

    name = "record_missing_required_property"


class TargetSchemaNoProperties(TargetFileTestTemplate):
    """Objects without declared properties."""

    name = "schema_no_properties"


class TargetSchemaUpdates(TargetFileTestTemplate):
    """A schema that changes several times between records."""

    name = "schema_updates"


class TargetSpecialCharsInAttributes(TargetFileTestTemplate):
    """Names with colons and other characters that databases often reject."""

    name = "special_chars_in_attributes"
