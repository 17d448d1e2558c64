"""Compilation of the steps that process a record in a sink, once per sink.

The steps and their order are those of singer_sdk: context, ``_sdc_`` columns, validation, date
parsing, `preprocess_record`, key check, `process_record`. If a sink overrides the method for a
step, that method is called. Otherwise faster code with the same result is used.
"""

# ruff: noqa: SLF001  the hooks of a sink have an underscore, authors override them

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tap_core.compat.author_overrides import is_any_overridden
from tap_core.exceptions import InvalidRecord, LimitExceededError
from tap_core.sinks.core import Sink
from tap_core.sinks.datetime_parsing import date_fields, parse_datetimes, parse_datetimes_lenient
from tap_core.sinks.message_conversion import make_record_message
from tap_core.sinks.sdc_metadata import METADATA_COLUMNS
from tap_core.sinks.validation import JSONSchemaValidator
from tap_core.types import Record

__all__ = ["RecordPipeline", "compile_pipeline"]

_Step: TypeAlias = Callable[[Record], object]


@dataclass(frozen=True)
class RecordPipeline:
    """Compiled function that processes the records of one sink."""

    add_record: Callable[[Record, str | None, int | None], bool]
    """Function that adds a record to the sink; called with record, extraction time and version.

    It may change the record. It returns True if the sink is then full and must be drained.
    """

    counts_bytes: bool
    """True if the caller must add each record's size to ``sink._batch_bytes_read``."""


def compile_pipeline(sink: Sink) -> RecordPipeline:
    """Combine the steps that process a sink's records, such as validation, into one function.

    Steps that this sink does not need are left out, for speed. The sink's schema must not change
    afterwards.
    """
    adds_metadata = sink.include_sdc_metadata_properties
    check = _compile_check(sink, removes_metadata=not adds_metadata)
    preprocess = sink.preprocess_record if _is_overridden(sink, "preprocess_record") else None
    check_keys = _compile_key_check(sink)
    has_after = _is_overridden(sink, "_after_process_record")
    has_after = has_after or sink.logger.isEnabledFor(logging.DEBUG)  # the SDK's method only logs
    after = sink._after_process_record if has_after else None
    is_full = _compile_is_full(sink)
    get_context, process = sink._get_context, sink.process_record

    def add_record(record: Record, extracted: str | None, version: int | None) -> bool:
        context = get_context(record)
        if adds_metadata:
            message = make_record_message(sink.stream_name, record, extracted, version)
            sink._add_sdc_metadata_to_record(record, message, context)
        check(record)
        if preprocess is not None:
            record = preprocess(record, context)
        check_keys(record)
        sink._total_records_read += 1
        sink._batch_records_read += 1
        process(record, context)
        if after is not None:
            after(context)
        return is_full()

    return RecordPipeline(add_record, counts_bytes=sink.MAX_BYTES is not None)


def _is_overridden(sink: Sink, *hooks: str) -> bool:
    return is_any_overridden(sink, Sink, *hooks)


# Validation and dates


def _compile_check(sink: Sink, *, removes_metadata: bool) -> _Step:
    """Return a function that validates the records of a sink, and parses their dates in place.

    If ``removes_metadata`` is True, the function first removes the ``_sdc_`` metadata columns from
    the record.
    """
    remove = sink._remove_sdc_metadata_from_record if removes_metadata else _do_nothing
    is_remove_overridden = removes_metadata and _is_overridden(
        sink, "_remove_sdc_metadata_from_record"
    )
    is_check_overridden = is_remove_overridden or _is_overridden(sink, "_validate_and_parse")
    if is_check_overridden or "properties" not in sink.schema:
        validate_and_parse = sink._validate_and_parse

        def check_by_hooks(record: Record) -> None:
            remove(record)
            validate_and_parse(record)

        return check_by_hooks
    known = frozenset(sink.schema["properties"])
    if removes_metadata:  # treated as undeclared, so that they are removed
        known -= set(METADATA_COLUMNS)
    validate, parse, schema = _compile_validation(sink), _compile_parsing(sink), sink.schema

    def check(record: Record) -> None:
        if known.issuperset(record):
            validate(record)
            parse(record)
            return
        remove(record)
        validate(record)
        sink._warn_of_undeclared_fields(record, schema)
        parse(record)

    return check


def _do_nothing(_record: Record) -> None:
    pass


def _compile_validation(sink: Sink) -> _Step:
    """Return a function that validates a record, and lets the sink log or raise any error."""
    validator = sink._validator
    if validator is None:
        return _do_nothing
    if type(validator) is not JSONSchemaValidator:
        return _handle_invalid(sink, validator.validate)
    is_certainly_valid = validator.certain_check
    validate_slowly = _handle_invalid(sink, validator.validate_with_jsonschema)

    def validate(record: Record) -> None:
        try:
            if is_certainly_valid(record):
                return
        except LimitExceededError:
            raise
        except Exception:  # noqa: BLE001, S110  an unusual value: jsonschema decides
            pass
        validate_slowly(record)

    return validate


def _handle_invalid(sink: Sink, validate: _Step) -> _Step:
    """Return a function that calls ``validate`` and passes an `InvalidRecord` error to the sink.

    The sink logs the error, and raises it unless invalid records are skipped.
    """

    def validate_and_handle(record: Record) -> None:
        try:
            validate(record)
        except InvalidRecord as error:
            sink._refuse(error)

    return validate_and_handle


def _compile_parsing(sink: Sink) -> _Step:
    """Return a function that parses the date and time texts of a record, in place."""
    if _is_overridden(sink, "_parse_timestamps_in_record"):
        hook = sink._parse_timestamps_in_record

        def parse_by_hook(record: Record) -> None:
            hook(record=record, schema=sink.schema, treatment=sink.datetime_error_treatment)

        return parse_by_hook
    fields = date_fields(sink.schema)
    if not fields:
        return _do_nothing
    readers = tuple((field.name, field.read) for field in fields)

    def parse(record: Record) -> None:
        try:
            parse_datetimes(record, readers)
        except ValueError:
            treatment = sink.datetime_error_treatment
            parse_datetimes_lenient(record, fields, treatment, sink.logger)

    return parse


# Keys and size


def _compile_key_check(sink: Sink) -> _Step:
    """Return a function that raises an error for a record without all key properties."""
    raise_error = sink._singer_validate_message
    if _is_overridden(sink, "_singer_validate_message"):
        return raise_error
    keys = tuple(sink._key_properties)

    def check_keys(record: Record) -> None:
        for key in keys:
            if key not in record:
                raise_error(record)

    return check_keys


def _compile_is_full(sink: Sink) -> Callable[[], bool]:
    """Return a function that returns True if the current batch of the sink is full.

    The function compares the number of records with a fixed limit if the sink has one, because
    that is fast. Otherwise it calls the sink's ``is_full``.
    """
    is_limited_otherwise = sink.MAX_BYTES is not None or _is_overridden(
        sink, "is_full", "current_size", "batch_size_rows"
    )
    is_property = isinstance(getattr(type(sink), "max_size", None), property)
    is_overridden = _is_overridden(sink, "max_size")
    if is_limited_otherwise or (is_overridden and is_property):
        return lambda: sink.is_full
    if is_overridden:  # a plain attribute, which the sink may change between batches
        return lambda: sink._batch_records_read >= sink.max_size
    limit = sink.max_size
    return lambda: sink._batch_records_read >= limit
