"""Standard tests of a tap, of its streams and of their properties.

Names of tests are those of singer_sdk (version 0.54). Error messages begin with singer_sdk's text,
followed by the stream, the property, the first invalid value and a remedy. For data that may be
correct, such as an unused property, a test only warns.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from tap_core.exceptions import EmptySchemaTypeError, InvalidJSONSchema
from tap_core.parsing.datetimes import parse_datetime
from tap_core.streams import Stream
from tap_core.testing.record_validation import (
    excerpt,
    find_faults,
    format_faults,
    get_validator,
)
from tap_core.testing.templates import (
    AttributeTestTemplate,
    StreamTestTemplate,
    TapTestTemplate,
    ValueType,
)
from tap_core.types import JsonSchema, Record
from tap_core.typing.inspect import (
    is_boolean_type,
    is_date_or_datetime_type,
    is_integer_type,
    is_null_type,
    is_number_type,
    is_object_type,
)

__all__ = [
    "AttributeIsBooleanTest",
    "AttributeIsDateTimeTest",
    "AttributeIsIntegerTest",
    "AttributeIsNumberTest",
    "AttributeIsObjectTest",
    "AttributeNotNullTest",
    "StreamCatalogSchemaMatchesRecordTest",
    "StreamPrimaryKeysTest",
    "StreamRecordMatchesStreamSchema",
    "StreamRecordSchemaMatchesCatalogTest",
    "StreamReturnsRecordTest",
    "StreamSchemaIsValidTest",
    "TapCLIPrintsTest",
    "TapDiscoveryTest",
    "TapStreamConnectionTest",
    "TapValidFinalStateTest",
]


# Taps


class TapCLIPrintsTest(TapTestTemplate):
    """Test that the tap prints its version and its description without an error."""

    name = "cli_prints"

    def test(self) -> None:
        """Call the methods that implement the options ``--version`` and ``--about``."""
        self.tap.print_version()
        self.tap.print_about()
        self.tap.print_about(output_format="json")


class TapDiscoveryTest(TapTestTemplate):
    """Test that the tap accepts the catalog that it discovers."""

    name = "discovery"

    def test(self) -> None:
        """Run discovery, and create a second tap with the discovered catalog."""
        self.tap.run_discovery()
        other_arguments = {k: v for k, v in self.runner.default_kwargs.items() if k != "catalog"}
        second_tap = self.runner.singer_class(
            config=self.runner.config, catalog=self.tap.catalog_dict, **other_arguments
        )
        _ = second_tap.streams  # the catalog is applied when the streams are made


class TapStreamConnectionTest(TapTestTemplate):
    """Test that the tap can read one record of each stream from its source."""

    name = "stream_connections"

    def test(self) -> None:
        """Sync one record of each stream; any exception fails the test."""
        self.tap.run_connection_test()


class TapValidFinalStateTest(TapTestTemplate):
    """Test that the tap writes STATE messages, and that the last one is final.

    A state is final if it has no progress markers, the bookmarks of an incomplete sync.
    """

    name = "valid_final_state"
    message = "Final state has in-progress markers."

    def test(self) -> None:
        """Check that there is a STATE message, and no ``progress_markers`` in the last one."""
        __tracebackhide__ = True
        states = self.runner.state_messages
        if not states:
            raise AssertionError(
                f"No STATE was written by '{self.tap.name}': it has no stream to sync, or it"
                " overrides the methods that write states."
            )
        last = states[-1]
        if "progress_markers" in last or "progress_markers" in (last.get("value") or ()):
            raise AssertionError(f"{self.message} It is {excerpt(json.dumps(last))}")


# Streams


class StreamSchemaIsValidTest(StreamTestTemplate):
    """Test that the stream's schema is a valid JSON Schema."""

    name = "schema_is_valid"

    def test(self) -> None:
        """Validate the stream's schema against the meta-schema of JSON Schema."""
        __tracebackhide__ = True
        try:
            get_validator(self.stream.schema)
        except InvalidJSONSchema as error:
            raise AssertionError(_format_schema_error(self.stream, error)) from None


class StreamReturnsRecordTest(StreamTestTemplate):
    """Test that the stream has at least one record, unless the options allow an empty stream."""

    name = "returns_record"

    def test(self) -> None:
        """Fail if the sync returned no records; skip the test if the stream may be empty."""
        __tracebackhide__ = True
        name = self.stream.name
        if self.ignore_no_records:
            pytest.skip(f"Stream '{name}' may have no records: its SuiteConfig says so.")
        if not self.stream_records:
            raise AssertionError(
                f"No records returned in stream '{name}'. To fix it: test with settings"
                " that find some, such as an earlier start_date, or allow it by"
                f" SuiteConfig(ignore_no_records_for_streams=[{name!r}])."
            )


class StreamCatalogSchemaMatchesRecordTest(StreamTestTemplate):
    """Test that warns of properties in the schema that no record has. It never fails."""

    name = "transformed_catalog_schema_matches_record"

    def test(self) -> None:
        """Warn of properties that the schema declares and no record has."""
        __tracebackhide__ = True
        if not self.stream_records:
            return
        missing = _get_mapped_properties(self.stream).keys() - _collect_keys(self.stream_records)
        if missing:
            warnings.warn(
                f"Fields in transformed catalog but not in records: ({_format_names(missing)})."
                f" Stream '{self.stream.name}' gave {len(self.stream_records)} records, and"
                " none has these fields: check their names in the schema, unless they are rare.",
                stacklevel=2,
            )


class StreamRecordSchemaMatchesCatalogTest(StreamTestTemplate):
    """Test that the schema declares all top-level properties of the records."""

    name = "record_schema_matches_transformed_catalog"

    def test(self) -> None:
        """Fail if a record has a property that the schema does not declare."""
        __tracebackhide__ = True
        unknown = _collect_keys(self.stream_records) - _get_mapped_properties(self.stream).keys()
        if unknown:
            first = next(record for record in self.stream_records if unknown & record.keys())
            name = min(unknown & first.keys())
            raise AssertionError(
                f"Fields in records but not in transformed catalog: ({_format_names(unknown)})."
                f" Stream '{self.stream.name}' gave {name} = {excerpt(repr(first[name]))}."
                " To fix it: add them to the schema, or remove them in post_process()."
            )


class StreamRecordMatchesStreamSchema(StreamTestTemplate):
    """Test that all records of the stream are valid under its JSON Schema."""

    name = "record_matches_stream_schema"

    def test(self) -> None:
        """Validate every record, including ``format`` keywords such as ``date-time``."""
        __tracebackhide__ = True
        faults = find_faults(self.stream_records, self.stream.schema)
        if faults:
            raise AssertionError(
                f"Record does not match stream schema: stream '{self.stream.name}',"
                f" {len(self.stream_records)} records tested.\n{format_faults(faults)}"
            )


class StreamPrimaryKeysTest(StreamTestTemplate):
    """Test that every record has values for the stream's primary keys.

    The test warns if two records have the same key values.
    """

    name = "primary_keys"

    def test(self) -> None:
        """Check the primary keys of every record, then warn of duplicate key values."""
        __tracebackhide__ = True
        keys = list(self.stream.primary_keys or ())
        for number, record in enumerate(self.stream_records, 1):
            for key in keys:
                self._require(key, record, number)
        self._warn_of_duplicates(keys)

    def _require(self, key: str, record: Record, number: int) -> None:
        """Raise AssertionError if a primary key is missing or null in a record.

        ``number`` is the position of the record in the stream, for the error message.
        """
        __tracebackhide__ = True
        where = f"stream '{self.stream.name}', record {number}: {excerpt(json.dumps(record))}."
        if key not in record:
            raise AssertionError(
                f"Record missing primary key: '{key}' of {where} To fix it: name a"
                " property in primary_keys that every record has, or set it in post_process()."
            )
        if record[key] is None:
            raise AssertionError(
                f"Primary keys contain some key values that are null: '{key}' of {where} To fix"
                " it: use another primary key, or drop such records in post_process()."
            )

    def _warn_of_duplicates(self, keys: list[str]) -> None:
        """Warn if several records have the same values for the primary keys."""
        if not keys:
            return
        counts = Counter(
            json.dumps([record[key] for key in keys]) for record in self.stream_records
        )
        [(values, count)] = counts.most_common(1) or [("", 0)]
        if count > 1:
            warnings.warn(
                f"Primary keys are not unique: stream '{self.stream.name}' gave"
                f" {len(self.stream_records)} records with {len(counts)} different keys"
                f" ({', '.join(keys)}); {count} of them have {excerpt(values)}. A target that"
                " merges by key keeps one of each.",
                stacklevel=2,
            )


# Properties


def _declares_type(schema: JsonSchema) -> bool:
    """Return True if a property's schema declares a type. Without a type, any value is allowed."""
    try:
        is_date_or_datetime_type(schema)
    except (EmptySchemaTypeError, ValueError):
        return False
    return True


def _declares_date(schema: JsonSchema) -> bool:
    """Return True if the type of a property is date or date-time."""
    return _declares_type(schema) and is_date_or_datetime_type(schema)


class AttributeIsDateTimeTest(AttributeTestTemplate):
    """Test that all values of a date or date-time property are ISO 8601 text."""

    name = "is_datetime"
    value_type = ValueType(
        kind="date or date-time",
        complaint="Unable to parse value ('{}') with datetime parser.",
        is_declared=_declares_date,
        fits=parse_datetime,
    )


class AttributeIsBooleanTest(AttributeTestTemplate):
    """Test that all values of a boolean property are booleans, or ``true`` or ``false`` as text."""

    name = "is_boolean"
    value_type = ValueType(
        kind="boolean",
        complaint="Unable to cast value ('{}') to boolean type.",
        is_declared=is_boolean_type,
        fits=lambda value: str(value).lower() in {"true", "false"},
    )


class AttributeIsObjectTest(AttributeTestTemplate):
    """Test that all values of an object property are objects (dicts)."""

    name = "is_object"
    value_type = ValueType(
        kind="object",
        complaint="Unable to cast value ('{}') to dict type.",
        is_declared=is_object_type,
        fits=lambda value: isinstance(value, dict),
    )


class AttributeIsIntegerTest(AttributeTestTemplate):
    """Test that ``int()`` accepts all values of an integer property, such as 5 or ``"5"``."""

    name = "is_integer"
    value_type = ValueType(
        kind="integer",
        complaint="Unable to cast value ('{}') to int type.",
        is_declared=is_integer_type,
        fits=lambda value: isinstance(int(value), int),
    )


class AttributeIsNumberTest(AttributeTestTemplate):
    """Test that all values of a number property are numbers; numeric text fails the test."""

    name = "is_numeric"
    value_type = ValueType(
        kind="number",
        complaint="Unable to cast value ('{}') to float type.",
        is_declared=is_number_type,
        fits=lambda value: isinstance(value, (float, int)),
    )


class AttributeNotNullTest(AttributeTestTemplate):
    """Test that all records have a value for a property whose type does not allow null."""

    name = "not_null"

    def test(self) -> None:
        """Fail if the property is null or missing in a record."""
        __tracebackhide__ = True
        nulls = [r for r in self.stream_records if r.get(self.attribute_name) is None]
        if nulls:
            raise AssertionError(
                f"Detected null values for attribute ('{self.attribute_name}'): stream"
                f" '{self.stream.name}', {len(nulls)} of {len(self.stream_records)} records,"
                f" first: {excerpt(json.dumps(nulls[0]))}. To fix it: allow"
                " null too (leave `required` off), or give it a value in post_process()."
            )

    @classmethod
    def evaluate(
        cls,
        stream: Stream,  # noqa: ARG003
        property_name: str,  # noqa: ARG003
        property_schema: JsonSchema,
    ) -> bool:
        """Return True if the property has a type that does not allow null."""
        return _declares_type(property_schema) and not is_null_type(property_schema)


def _format_schema_error(stream: Stream, error: InvalidJSONSchema) -> str:
    cause: Any = error.__cause__  # jsonschema's error; its text contains the whole schema
    where = ".".join(str(part) for part in cause.absolute_path) or "(the schema)"
    return f"Schema is not valid: stream '{stream.name}', {where}: {excerpt(cause.message)}."


def _get_mapped_properties(stream: Stream) -> JsonSchema:
    """Return the ``properties`` of a stream's schema, with all stream maps applied."""
    properties: JsonSchema = stream.stream_maps[-1].transformed_schema.get("properties", {})
    return properties


def _collect_keys(records: Iterable[Record]) -> set[str]:
    """Return the names of the top-level properties that occur in the records."""
    return set().union(*(record.keys() for record in records))


def _format_names(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names))
