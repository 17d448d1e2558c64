"""Standard tests of a target, with ordinary and unusual input messages.

Names of classes, tests, streams and properties are those of singer_sdk (version 0.54), because
authors subclass the tests and query the loaded tables. A class without a ``test`` method only tests
that the target processes its input without an error.
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
"""Input states of `TargetMultipleStateMessages`, in order: the values of its two streams."""


class TargetArrayData(TargetFileTestTemplate):
    """Test that the target loads a property whose values are arrays of strings."""

    name = "array_data"


class TargetCamelcaseComplexSchema(TargetFileTestTemplate):
    """Test that the target loads a stream with many properties in mixed case.

    A second, different SCHEMA message for the stream precedes the first record.
    """

    name = "camelcase_complex_schema"


class TargetCamelcaseTest(TargetFileTestTemplate):
    """Test that the target loads a stream with a mixed-case name and mixed-case properties."""

    name = "camelcase"


class TargetCliPrintsTest(TargetTestTemplate):
    """Test that the target prints its version and its description without an error."""

    name = "cli_prints"

    def test(self) -> None:
        """Call the methods that implement the options ``--version`` and ``--about``."""
        self.target.print_version()
        self.target.print_about()
        self.target.print_about(output_format="json")


class TargetDuplicateRecords(TargetFileTestTemplate):
    """Test that the target loads several records with the same primary key without an error."""

    name = "duplicate_records"


class TargetEncodedStringData(TargetFileTestTemplate):
    """Test that the target loads text in many scripts, with quotes and control characters."""

    name = "encoded_string_data"


class TargetInvalidSchemaTest(TargetFileTestTemplate):
    """Test that the target rejects a SCHEMA message whose schema has no properties."""

    name = "invalid_schema"

    def test(self) -> None:
        """Process the input, and expect an exception of any type."""
        with pytest.raises(Exception):  # noqa: B017, PT011 - a target may have its own
            super().test()


class TargetMultipleStateMessages(TargetFileTestTemplate):
    """Test that the target emits states unchanged, in order, and finally the newest state."""

    name = "multiple_state_messages"

    def test(self) -> None:
        """Check that all emitted states occur in the input, in the same order.

        The last emitted state must equal the last input state; earlier ones may be omitted.
        """
        self.runner.sync_all()
        streams = ("test_multiple_state_messages_a", "test_multiple_state_messages_b")
        sent = [dict(zip(streams, values, strict=True)) for values in _STATES]
        emitted = self.runner.state_messages
        remaining = iter(sent)  # `in` advances it, so that the order is checked too
        if emitted[-1:] != sent[-1:] or not all(state in remaining for state in emitted):
            raise AssertionError(f"Expected states from {sent}, but the target emitted {emitted}.")


class TargetNoPrimaryKeys(TargetFileTestTemplate):
    """Test that the target loads a stream without primary keys."""

    name = "no_primary_keys"


class TargetOptionalAttributes(TargetFileTestTemplate):
    """Test that the target loads records with and without a property that is not required."""

    name = "optional_attributes"


class TargetPrimaryKeyUpdates(TargetFileTestTemplate):
    """Test that the target accepts a second SCHEMA message with other primary keys."""

    name = "pk_updates"


class TargetRecordBeforeSchemaTest(TargetFileTestTemplate):
    """Test that the target rejects a RECORD message without a preceding SCHEMA message."""

    name = "record_before_schema"

    def test(self) -> None:
        """Process the input, and expect a `RecordsWithoutSchemaException`."""
        with pytest.raises(RecordsWithoutSchemaException):
            super().test()


class TargetRecordMissingKeyProperty(TargetFileTestTemplate):
    """Test that the target rejects a record without the primary key property."""

    name = "record_missing_key_property"

    def test(self) -> None:
        """Process the input, and expect a `MissingKeyPropertiesError`."""
        with pytest.raises(MissingKeyPropertiesError):
            super().test()


class TargetRecordMissingOptionalFields(TargetFileTestTemplate):
    """Test that the target loads records that have only the required properties."""

    name = "record_missing_fields"


class TargetRecordMissingRequiredProperty(TargetFileTestTemplate):
    """Test that the target loads a record without a required property that is not a key.

    This test is optional: it is not part of the suite `target_tests`.
    """

    name = "record_missing_required_property"


class TargetSchemaNoProperties(TargetFileTestTemplate):
    """Test that the target loads object properties whose schema declares no properties."""

    name = "schema_no_properties"


class TargetSchemaUpdates(TargetFileTestTemplate):
    """Test that the target loads a stream whose schema changes several times between records."""

    name = "schema_updates"


class TargetSpecialCharsInAttributes(TargetFileTestTemplate):
    """Test that the target loads stream and property names with characters such as ``:``."""

    name = "special_chars_in_attributes"
