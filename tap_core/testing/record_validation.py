"""Validation of a stream's records against its JSON Schema, for the standard tests.

Equal errors in many records are reported once, with the first invalid value and a count. Validators
are cached by schema. Records that a quick check finds valid are not passed to jsonschema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tap_core.exceptions import InvalidJSONSchema
from tap_core.sinks.validation import JSONSchemaValidator
from tap_core.types import JsonSchema, Record
from tap_core.typing import validators

__all__ = [
    "RecordFault",
    "excerpt",
    "find_faults",
    "find_invalid_values",
    "format_faults",
    "get_validator",
]

_MAX_CHARACTERS: Final = 160
_MAX_FAULTS: Final = 10

_REMEDIES: Final[Mapping[str, str]] = {
    "type": "declare what the source sends (th.AnyOf or th.CustomType allow several types),"
    " or convert the value in post_process()",
    "required": "leave `required` off this property, or give it a value in post_process()",
    "additionalProperties": "add the property to the schema, or remove it in post_process()",
    "enum": "add the value to the allowed ones, or leave them off",
    "format": "take the format off the schema, or rewrite the value in post_process()",
}
_REMEDY: Final = "loosen the schema, or change the value in post_process()"


@dataclass(frozen=True)
class RecordFault:
    """Validation error that one or more records of a stream have in common.

    Attributes:
        path: Path of the invalid property, such as ``a.b[]``.
        rule: Violated JSON Schema keyword, such as ``type``.
        message: Error message of the package jsonschema for the first invalid record.
        record: Number of the first invalid record, counted from 1.
        count: Number of times that the error occurs.
    """

    path: str
    rule: str
    message: str
    record: int
    count: int

    def __str__(self) -> str:
        times = f"record {self.record}"
        if self.count > 1:
            times = f"{self.count} times, first in {times}"
        return f"{self.path or '(the record)'}: {self.message} [{times}]"

    @property
    def remedy(self) -> str:
        """Advice to the developer of the tap on how to correct the error."""
        return _REMEDIES.get(self.rule, _REMEDY)


_validators: dict[str, JSONSchemaValidator] = {}


def get_validator(schema: JsonSchema) -> JSONSchemaValidator:
    """Return a validator for a JSON Schema that also checks ``format`` keywords.

    Validators are cached by schema.

    Raises:
        InvalidJSONSchema: The schema is invalid.
    """
    text = json.dumps(schema, sort_keys=True, default=repr)
    if text not in _validators:
        _validators[text] = JSONSchemaValidator(schema, validate_formats=True)
    return _validators[text]


def find_faults(records: Iterable[Record], schema: JsonSchema) -> list[RecordFault]:
    """Validate records against a JSON Schema, and return the errors without duplicates.

    If the schema is invalid, only its valid keywords are checked, as in singer_sdk's tests. Two
    errors are equal if they have the same path and violate the same keyword. Errors about different
    missing properties are never equal.
    """
    faults: dict[tuple[str, str, str], RecordFault] = {}
    is_certainly_valid, validator = _get_checks(schema)
    for number, record in enumerate(records, 1):
        if _is_valid(is_certainly_valid, record):
            continue
        for error in validator.iter_errors(record):
            path, rule = _format_path(error.absolute_path), str(error.validator)
            detail = error.message if rule == "required" else ""  # it names the property
            previous = faults.get((path, rule, detail))
            faults[path, rule, detail] = (
                replace(previous, count=previous.count + 1)
                if previous
                else RecordFault(path, rule, excerpt(error.message), number, 1)
            )
    return list(faults.values())


def _get_checks(schema: JsonSchema) -> tuple[Callable[[Any], bool], Any]:
    """Return a quick function that checks records, and a validator of the package jsonschema.

    The function returns True only for records that are certainly valid. Any other record must be
    passed to the validator.
    """
    try:
        validator = get_validator(schema)
    except InvalidJSONSchema:
        kind = validators.DEFAULT_JSONSCHEMA_VALIDATOR
        return lambda _record: False, kind(schema, format_checker=kind.FORMAT_CHECKER)
    return validator.certain_check, validator.validator


def find_invalid_values(
    values: Sequence[Any], fits: Callable[[Any], object], complaint: str
) -> tuple[int, str] | None:
    """Return the number of invalid values and a message about the first invalid one.

    If all values are valid, return None.

    Args:
        values: Values to check.
        fits: Function that returns True for a valid value. If it returns False or raises an
            exception, the value is invalid.
        complaint: Message with the placeholder ``{}`` for the value.
    """
    wrong = [value for value in values if not _is_valid(fits, value)]
    return (len(wrong), complaint.format(excerpt(str(wrong[0])))) if wrong else None


def format_faults(faults: Sequence[RecordFault]) -> str:
    """Return the first ten errors as text: one line for each error, and one for its remedy."""
    lines = [f"  {fault}\n    To fix it: {fault.remedy}." for fault in faults[:_MAX_FAULTS]]
    if len(faults) > _MAX_FAULTS:
        lines.append(f"  and {len(faults) - _MAX_FAULTS} more")
    return "\n".join(lines)


def excerpt(text: str) -> str:
    """Shorten a text to about 160 characters by omitting its middle, for an error message.

    The beginning and the end are kept, because jsonschema's messages begin with the invalid value
    and end with the violated rule.
    """
    if len(text) <= _MAX_CHARACTERS:
        return text
    half = _MAX_CHARACTERS // 2
    return f"{text[:half]} … {text[-half:]}"


def _is_valid(check: Callable[[Any], object], value: Any) -> bool:
    """Return True if ``check`` accepts a value, False if it rejects it or raises an exception."""
    try:
        return bool(check(value))
    except Exception:  # noqa: BLE001  an exception means an invalid value
        return False


def _format_path(parts: Iterable[str | int]) -> str:
    """Return a jsonschema path as text: ``["a", "b", 0]`` becomes ``a.b[]``."""
    return "".join("[]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")
