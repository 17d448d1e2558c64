"""Text that a template gave, or that stands without one, read as a Python literal.

Rules of the room: pure, and the same as `ast.literal_eval` on everything; what can be told
from its first characters is not parsed. Nothing here knows Jinja.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, Final

from tap_core.manifest.document import DataText

__all__ = ["VALUE_TYPES", "has_template", "parse_literal", "parse_plain"]

VALUE_TYPES: Final[Mapping[Any, tuple[type, ...]]] = {
    "string": (str,),
    "number": (float,),
    "integer": (int,),
    "boolean": (bool,),
}
"""What ``value_type`` says, as Python has it; 7 is no ``number``, in airbyte-cdk as here."""

_NEVER: Final = re.compile(
    r"[ACDEG-MO-QSV-Zac-qtv-z_/@$&*=<>?!,;:|^%]"  # a word or an address
    r"|\d{4}-\d\d-\d\d"
    r"|T(?!rue)|F(?!alse)|N(?!one)|s(?!et)|[bBrRuU](?![bBrR]?['\"])"
)
"""How nothing begins that is a literal."""
_INTEGER: Final = re.compile(r"-?(?:0|[1-9]\d*)", re.ASCII)
_SHORT: Final = 500
"""Integers of more than 640 digits may have no text (sys.set_int_max_str_digits), also those that
are written as hexadecimal ones."""

_FALSE_WORDS: Final = ("False", "false", "{}", "[]", "()", "0", "0.0")
_MARKS: Final = ("{{", "{%", "{#")
_WORDS: Final[dict[str, Any]] = {"": "", "True": True, "False": False, "None": None}


def parse_literal(text: str, types: tuple[type, ...] = ()) -> Any:
    """Return the value of a Python literal, or the text where it is none.

    Where ``types`` are given, a value of any other type stays the text.
    """
    if _NEVER.match(text):
        return text
    value = _value(text)
    if isinstance(value, types) if types else not isinstance(value, complex):
        return value
    return text


def _value(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    try:
        if _INTEGER.fullmatch(text):
            return int(text)
        value = ast.literal_eval(text)
        if len(text) > _SHORT:
            repr(value)  # raises where an integer in it has no text
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return text
    else:
        return value


def has_template(text: str) -> bool:
    """Return whether a text has anything of a template in it."""
    return text.__class__ is not DataText and any(mark in text for mark in _MARKS)


def parse_plain(text: str, kind: str, types: tuple[type, ...] = (), empty: Any = "") -> Any:
    """Return what a text, given by a template or written without one, is for a kind of field."""
    if kind == "text":
        return parse_literal(text, types or (str,))
    if not text:
        return empty if kind == "value" else False
    value = parse_literal(text, types)
    return value if kind == "value" else _is_true(value)


def _is_true(value: Any) -> bool:
    return bool(value) and value not in _FALSE_WORDS
