"""What is wrong with records: each kind of fault once, with the first value that has it.

Rules of the room: pure, and nothing of pytest. The checker of a schema is made once per
process. Records that certainly fit never reach jsonschema. Sentences name the property and
show the value, cut where it is long.
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

__all__ = ["RecordFault", "excerpt", "find_faults", "find_misfits", "format_faults", "make_checker"]

_LONGEST: Final = 160
_MOST: Final = 10

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
    """One kind of fault: where, in words, and how often; ``record`` is the first, from 1."""

    path: str
    rule: str
    words: str
    record: int
    count: int

    def __str__(self) -> str:
        times = f"record {self.record}"
        if self.count > 1:
            times = f"{self.count} times, first in {times}"
        return f"{self.path or '(the record)'}: {self.words} [{times}]"

    @property
    def remedy(self) -> str:
        """What an author can do about it."""
        return _REMEDIES.get(self.rule, _REMEDY)


_checkers: dict[str, JSONSchemaValidator] = {}


def make_checker(schema: JsonSchema) -> JSONSchemaValidator:
    """Return the checker of a schema, formats included; equal schemas share one.

    Raises:
        InvalidJSONSchema: the schema is none.
    """
    text = json.dumps(schema, sort_keys=True, default=repr)
    if text not in _checkers:
        _checkers[text] = JSONSchemaValidator(schema, validate_formats=True)
    return _checkers[text]


def find_faults(records: Iterable[Record], schema: JsonSchema) -> list[RecordFault]:
    """Find what does not fit the schema.

    A schema that is not valid is used as far as jsonschema can: whatever that raises is
    raised here, and whether a schema is valid is another question.
    """
    found: dict[tuple[str, str, str], RecordFault] = {}
    surely_fits, validator = _build_rules(schema)
    for number, record in enumerate(records, 1):
        if _holds(surely_fits, record):
            continue
        for error in validator.iter_errors(record):
            path, rule = _path(error.absolute_path), str(error.validator)
            detail = error.message if rule == "required" else ""  # it names the property
            known = found.get((path, rule, detail))
            found[path, rule, detail] = (
                replace(known, count=known.count + 1)
                if known
                else RecordFault(path, rule, excerpt(error.message), number, 1)
            )
    return list(found.values())


def _build_rules(schema: JsonSchema) -> tuple[Callable[[Any], bool], Any]:
    """Return a quick test of a record that errs on one side only, and jsonschema's validator."""
    try:
        checker = make_checker(schema)
    except InvalidJSONSchema:
        kind = validators.DEFAULT_JSONSCHEMA_VALIDATOR
        return lambda _record: False, kind(schema, format_checker=kind.FORMAT_CHECKER)
    return checker.certain_check, checker.validator


def find_misfits(
    values: Sequence[Any], fits: Callable[[Any], bool], complaint: str
) -> tuple[int, str] | None:
    """Return how many values do not fit, and the complaint about the first; None if all do.

    ``complaint`` has a place for the value: ``{}``. A test that raises on a value says
    that it does not fit.
    """
    wrong = [value for value in values if not _holds(fits, value)]
    return (len(wrong), complaint.format(excerpt(str(wrong[0])))) if wrong else None


def format_faults(faults: Sequence[RecordFault]) -> str:
    """Write faults one a line, each with its remedy below; the first ten."""
    lines = [f"  {fault}\n    To get out of it: {fault.remedy}." for fault in faults[:_MOST]]
    if len(faults) > _MOST:
        lines.append(f"  and {len(faults) - _MOST} more")
    return "\n".join(lines)


def excerpt(text: str) -> str:
    """Cut a long text in its middle: messages begin with the value and end with the rule."""
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    return f"{text[:half]} … {text[-half:]}"


def _holds(question: Callable[[Any], bool], value: Any) -> bool:
    try:
        return question(value)
    except Exception:  # noqa: BLE001  an odd value is none that fits
        return False


def _path(parts: Iterable[str | int]) -> str:
    """Write a path as ``a.b[]``: which item of an array is not a kind of fault."""
    return "".join("[]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")
