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
"""States of the two streams in the input of `TargetMultipleStateMessages`, in order."""


class TargetArrayData(TargetFileTestTemplate):
    """Test that the target loads arrays of strings."""

    name = "array_data"


class TargetCamelcaseComplexSchema(TargetFileTestTemplate):
    """Test that the target loads a wide schema with mixed-case names.

    The schema changes before the first record.
    """

    name = "camelcase_complex_schema"


class TargetCamelcaseTest(TargetFileTestTemplate):
    """Test that the target loads a stream and properties with mixed-case names."""

    name = "camelcase"


class TargetCliPrintsTest(TargetTestTemplate):
    """Test that the target prints its version and its description."""

    name = "cli_prints"

    def test(self) -> None:
        """Call the methods that implement ``--version`` and ``--about``."""
        self.target.print_version()
        self.target.print_about()
        self.target.print_about(output_format="json")


class TargetDuplicateRecords(TargetFileTestTemplate):
    """Test that the target loads several records with the same key; the last one is the newest."""

    name = "duplicate_records"


class TargetEncodedStringData(TargetFileTestTemplate):
    """Test that the target loads text in many scripts, with quotes and control characters."""

    name = "encoded_string_data"


class TargetInvalidSchemaTest(TargetFileTestTemplate):
    """Test that the target rejects a schema without properties."""

    name = "invalid_schema"

    def test(self) -> None:
        """Expect an exception of any type."""
        with pytest.raises(Exception):  # noqa: B017, PT011 - a target may have its own
            super().test()


class TargetMultipleStateMessages(TargetFileTestTemplate):
    """Test that the target emits states unchanged and in order, and the newest state last."""

    name = "multiple_state_messages"

    def test(self) -> None:
        """Check that the emitted states are input states, in order, and end with the last one."""
        self.runner.sync_all()
        streams = ("test_multiple_state_messages_a", "test_multiple_state_messages_b")
        sent = [dict(zip(streams, values, strict=True)) for values in _STATES]
        emitted = self.runner.state_messages
        remaining = iter(sent)
        if emitted[-1:] != sent[-1:] or not all(state in remaining for state in emitted):
            raise AssertionError(f"Expected states from {sent}, but the target emitted {emitted}.")


class TargetNoPrimaryKeys(TargetFileTestTemplate):
    """Test that the target loads a stream without primary keys."""

    name = "no_primary_keys"


class TargetOptionalAttributes(TargetFileTestTemplate):
    """Test that the target loads records with and without a property that is not required."""

    name = "optional_attributes"


class TargetPrimaryKeyUpdates(TargetFileTestTemplate):
    """Test that the target accepts a schema that is sent again with other primary keys."""

    name = "pk_updates"


class TargetRecordBeforeSchemaTest(TargetFileTestTemplate):
    """Test that the target rejects a record without a preceding schema."""

    name = "record_before_schema"

    def test(self) -> None:
        """Expect a `RecordsWithoutSchemaException`."""
        with pytest.raises(RecordsWithoutSchemaException):
            super().test()


class TargetRecordMissingKeyProperty(TargetFileTestTemplate):
    """Test that the target rejects a record without its key property."""

    name = "record_missing_key_property"

    def test(self) -> None:
        """Expect a `MissingKeyPropertiesError`."""
        with pytest.raises(MissingKeyPropertiesError):
            super().test()


class TargetRecordMissingOptionalFields(TargetFileTestTemplate):
    """Test that the target loads records that have only the required properties."""

    name = "record_missing_fields"


class TargetRecordMissingRequiredProperty(TargetFileTestTemplate):
    """Test that the target loads a record that lacks a required property other than a key.

    The test is not part of the standard suite.
    """

    name = "record_missing_required_property"


class TargetSchemaNoProperties(TargetFileTestTemplate):
    """Test that the target loads objects without declared properties."""

    name = "schema_no_properties"


class TargetSchemaUpdates(TargetFileTestTemplate):
    """Test that the target loads a stream whose schema changes several times between records."""

    name = "schema_updates"


class TargetSpecialCharsInAttributes(TargetFileTestTemplate):
    """Test that the target loads names with colons and other characters unusual in databases."""

    name = "special_chars_in_attributes"
