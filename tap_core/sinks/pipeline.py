"""Compilation of the steps that process a record in a sink, once per sink.

The steps and their order are those of singer_sdk: context, ``_sdc_`` columns, validation, date
parsing, `preprocess_record`, key check, `process_record`. If the sink overrides the hook of a step,
the hook is called; otherwise faster code with the same result is used.
"""

# ruff: noqa: SLF001  the hooks of a sink have an underscore, authors override them

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tap_core.exceptions import InvalidRecord, LimitExceededError
from tap_core.sinks.core import Sink
from tap_core.sinks.datetime_parsing import date_fields, parse_datetimes, parse_datetimes_lenient
from tap_core.sinks.message_conversion import record_message
from tap_core.sinks.sdc_metadata import METADATA_COLUMNS
from tap_core.sinks.validation import JSONSchemaValidator
from tap_core.types import Record

__all__ = ["RecordPipeline", "compile_pipeline"]

_Context: TypeAlias = dict[str, Any]
_Step: TypeAlias = Callable[[Record], object]
_Take: TypeAlias = Callable[[Record, str | None, int | None], bool]


@dataclass(frozen=True)
class RecordPipeline:
    """Sink of a target, with the compiled function that processes its records.

    The function ``take(record, time_extracted, version)`` adds one record, which it may modify, to
    the sink. It returns True if the sink is then full and must be drained.
    """

    sink: Sink
    take: _Take
    weighs: bool
    """True if the caller must add each record's size to ``sink._batch_bytes_read``."""


def compile_pipeline(sink: Sink) -> RecordPipeline:
    """Combine the steps that process a sink's records, such as validation, into one function.

    Steps that this sink does not need are left out, for speed. The sink's schema must not change
    later.
    """
    enrich = _enrich(sink) if sink.include_sdc_metadata_properties else None
    check = _check(sink, strips=enrich is None)
    preprocess = sink.preprocess_record if _overrides(sink, "preprocess_record") else None
    check_keys = _check_keys(sink)
    after = sink._after_process_record if _has_afterthought(sink) else None
    is_full = _is_full(sink)
    context_of, process = sink._get_context, sink.process_record

    def take(record: Record, extracted: str | None, version: int | None) -> bool:
        context = context_of(record)
        if enrich is not None:
            enrich(record, extracted, version, context)
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

    return RecordPipeline(sink, take, weighs=sink.MAX_BYTES is not None)


def _overrides(sink: Sink, name: str) -> bool:
    return getattr(type(sink), name) is not getattr(Sink, name) or name in vars(sink)


def _has_afterthought(sink: Sink) -> bool:
    return _overrides(sink, "_after_process_record") or sink.logger.isEnabledFor(logging.DEBUG)


# The _sdc_ columns


def _enrich(sink: Sink) -> Callable[[Record, str | None, int | None, _Context], None]:
    def enrich(
        record: Record, extracted: str | None, version: int | None, context: _Context
    ) -> None:
        message = record_message(sink.stream_name, record, extracted, version)
        sink._add_sdc_metadata_to_record(record, message, context)

    return enrich


# Validation and dates


def _check(sink: Sink, *, strips: bool) -> _Step:
    """Return a function that validates the records of a sink, and parses their dates in place.

    If ``strips`` is True, the function first removes the ``_sdc_`` metadata columns from the
    record.
    """
    strip = sink._remove_sdc_metadata_from_record
    own_strip = strips and _overrides(sink, "_remove_sdc_metadata_from_record")
    own_check = _overrides(sink, "_validate_and_parse")
    if own_check or own_strip or "properties" not in sink.schema:
        validate_and_parse = sink._validate_and_parse

        def by_hooks(record: Record) -> None:
            if strips:
                strip(record)
            validate_and_parse(record)

        return by_hooks
    return _compiled_check(sink, strips=strips)


def _compiled_check(sink: Sink, *, strips: bool) -> _Step:
    known = frozenset(sink.schema["properties"])
    if strips:  # treated as undeclared, so that they are removed
        known -= set(METADATA_COLUMNS)
    strip = sink._remove_sdc_metadata_from_record if strips else _nothing
    validate = _validate(sink)
    parse = _parse(sink)
    schema = sink.schema

    def check(record: Record) -> None:
        if known.issuperset(record):
            validate(record)
            parse(record)
            return
        strip(record)
        validate(record)
        sink._warn_of_undeclared_fields(record, schema)
        parse(record)

    return check


def _nothing(_record: Record) -> None:
    pass


def _validate(sink: Sink) -> _Step:
    validator = sink._validator
    if validator is None:
        return _nothing
    if type(validator) is not JSONSchemaValidator:
        return _tolerant(sink, validator.validate)
    is_sure_of = validator.certain_check
    validate_slowly = _tolerant(sink, validator.validate_with_jsonschema)

    def validate(record: Record) -> None:
        try:
            if is_sure_of(record):
                return
        except LimitExceededError:
            raise
        except Exception:  # noqa: BLE001, S110  an unusual value: jsonschema decides
            pass
        validate_slowly(record)

    return validate


def _tolerant(sink: Sink, validate: _Step) -> _Step:
    def tolerant(record: Record) -> None:
        try:
            validate(record)
        except InvalidRecord as error:
            sink._refuse(error)

    return tolerant


def _parse(sink: Sink) -> _Step:
    if _overrides(sink, "_parse_timestamps_in_record"):
        hook = sink._parse_timestamps_in_record

        def by_hook(record: Record) -> None:
            hook(record=record, schema=sink.schema, treatment=sink.datetime_error_treatment)

        return by_hook
    fields = date_fields(sink.schema)
    if not fields:
        return _nothing
    readers = tuple((field.name, field.read) for field in fields)

    def parse(record: Record) -> None:
        try:
            parse_datetimes(record, readers)
        except ValueError:
            treatment = sink.datetime_error_treatment
            parse_datetimes_lenient(record, fields, treatment, sink.logger)

    return parse


# Keys and size


def _check_keys(sink: Sink) -> _Step:
    complain = sink._singer_validate_message
    if _overrides(sink, "_singer_validate_message"):
        return complain
    keys = tuple(sink._key_properties)

    def check_keys(record: Record) -> None:
        for key in keys:
            if key not in record:
                complain(record)

    return check_keys


def _is_full(sink: Sink) -> Callable[[], bool]:
    limit = _fixed_limit(sink)
    if limit is None:
        return lambda: sink.is_full
    return lambda: sink._batch_records_read >= limit


def _fixed_limit(sink: Sink) -> int | None:
    """Return the number of records at which a batch of the sink is full, if the number is fixed.

    Return None if the sink's ``is_full`` must be called after each record: the sink limits batches
    in another way, for example by bytes, or may change the limit.
    """
    kind = type(sink)
    if _overrides(sink, "is_full") or sink.MAX_BYTES is not None:
        return None
    if _overrides(sink, "current_size") or _overrides(sink, "batch_size_rows"):
        return None
    own = _overrides(sink, "max_size")
    return None if own and isinstance(getattr(kind, "max_size"), property) else sink.max_size  # noqa: B009
