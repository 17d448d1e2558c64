"""The tests of a target: what taps send, ordinary and odd, and what must come of it.

Rules of the room: names of classes, tests, streams and properties are singer_sdk's
(version 0.54), because authors subclass the tests and look in their tables for what these
streams load. A test whose target only has to survive its input says nothing else.
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
"""What the input of `TargetMultipleStateMessages` says of its two streams."""


class TargetArrayData(TargetFileTestTemplate):
    """Lists of text."""

    name = "array_data"


class TargetCamelcaseComplexSchema(TargetFileTestTemplate):
    """A wide schema with names in mixed case, which grows before there is a record."""

    name = "camelcase_complex_schema"


class TargetCamelcaseTest(TargetFileTestTemplate):
    """A stream and properties with names in mixed case."""

    name = "camelcase"


class TargetCliPrintsTest(TargetTestTemplate):
    """The target says its version and describes itself."""

    name = "cli_prints"

    def test(self) -> None:
        """Print what ``--version`` and ``--about`` print."""
        self.target.print_version()
        self.target.print_about()
        self.target.print_about(output_format="json")


class TargetDuplicateRecords(TargetFileTestTemplate):
    """Records of one key, again and again; the last of each is the newest."""

    name = "duplicate_records"


class TargetEncodedStringData(TargetFileTestTemplate):
    """Text in many scripts, with quotes, escapes and control characters; nested too."""

    name = "encoded_string_data"


class TargetInvalidSchemaTest(TargetFileTestTemplate):
    """A schema without properties is refused."""

    name = "invalid_schema"

    def test(self) -> None:
        """Expect an error, of whatever kind the target has for it."""
        with pytest.raises(Exception):  # noqa: B017, PT011 - a target may have its own
            super().test()


class TargetMultipleStateMessages(TargetFileTestTemplate):
    """States leave as they came in and in that order, and the newest leaves last."""

    name = "multiple_state_messages"

    def test(self) -> None:
        """Look for each state that left among those that came in."""
        self.runner.sync_all()
        streams = ("test_multiple_state_messages_a", "test_multiple_state_messages_b")
        came = [dict(zip(streams, each, strict=True)) for each in _STATES]
        left = self.runner.state_messages
        coming = iter(came)
        if left[-1:] != came[-1:] or not all(state in coming for state in left):
            raise AssertionError(f"{came} came in; what left was {left}.")


class TargetNoPrimaryKeys(TargetFileTestTemplate):
    """A stream without a key."""

    name = "no_primary_keys"


class TargetOptionalAttributes(TargetFileTestTemplate):
    """Records with and without a property that is not required."""

    name = "optional_attributes"


class TargetPrimaryKeyUpdates(TargetFileTestTemplate):
    """A schema that comes again with other keys."""

    name = "pk_updates"


class TargetRecordBeforeSchemaTest(TargetFileTestTemplate):
    """A record whose schema has not come is refused."""

    name = "record_before_schema"

    def test(self) -> None:
        """Expect the error."""
        with pytest.raises(RecordsWithoutSchemaException):
            super().test()


class TargetRecordMissingKeyProperty(TargetFileTestTemplate):
    """A record without its key is refused."""

    name = "record_missing_key_property"

    def test(self) -> None:
        """Expect the error."""
        with pytest.raises(MissingKeyPropertiesError):
            super().test()


class TargetRecordMissingOptionalFields(TargetFileTestTemplate):
    """Records that have only what is required."""

    name = "record_missing_fields"


class TargetRecordMissingRequiredProperty(TargetFileTestTemplate):
    """A record without a required property that is no key; for targets that accept it."""

    name = "record_missing_required_property"


class TargetSchemaNoProperties(TargetFileTestTemplate):
    """Objects of any properties."""

    name = "schema_no_properties"


class TargetSchemaUpdates(TargetFileTestTemplate):
    """A schema that grows between records, several times."""

    name = "schema_updates"


class TargetSpecialCharsInAttributes(TargetFileTestTemplate):
    """Names with colons and other characters that databases do not like."""

    name = "special_chars_in_attributes"
