"""Conversion of text to Python literals, for rendered templates and plain options.

The result is the same as that of `ast.literal_eval`, with two exceptions: a number whose digits a
float would lose becomes a ``Decimal``, and a literal that is or contains an Ellipsis or bytes stays
text. A text whose first characters exclude a literal is not parsed, to save time. Nothing
here uses Jinja.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from types import EllipsisType
from typing import Any, Final

from tap_core.manifest.decimal_conversion import as_float
from tap_core.manifest.nodes import DataText

__all__ = ["OPENINGS", "get_literal_types", "has_template", "parse_literal", "parse_option"]

OPENINGS: Final = ("{{", "{%", "{#")
"""Delimiters with which an expression, a statement or a comment of Jinja begins."""

_VALUE_TYPES: Final[Mapping[Any, tuple[type, ...]]] = {
    "string": (str,),
    "number": (float, Decimal),
    "integer": (int,),
    "boolean": (bool,),
}
"""Python types of each ``value_type``; an int is not a ``number``, as in airbyte-cdk."""

_NO_LITERAL: Final = re.compile(
    r"[ACDEG-MO-QSV-Zac-qtv-z_/@$&*=<>?!,;:|^%]"  # plain text or a URL
    r"|\d{4}-\d\d-\d\d"
    r"|T(?!rue)|F(?!alse)|N(?!one)|s(?!et)|[bBrRuU](?![bBrR]?['\"])"
)
"""Start of a text that is certainly not a Python literal."""
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
"""JSON number; the groups are its fraction and its exponent."""
_NOT_IN_JSON: Final = re.compile(r"\.\.\.|[bB][rR]?['\"]")
"""Text that occurs in each literal with an Ellipsis or bytes."""
_MAX_EXPONENT: Final = 1_000
"""Maximum exponent of a number. The ID ``12e456789``, for example, therefore stays a text."""
_MAX_UNCHECKED: Final = 500
"""Maximum length of a literal that is not checked for integers with too many digits.

Python refuses to convert an integer with more than 640 digits to text (sys.set_int_max_str_digits).
"""

_FALSE_WORDS: Final = ("False", "false", "{}", "[]", "()", "0", "0.0")
_WORDS: Final[dict[str, Any]] = {"": "", "True": True, "False": False, "None": None}


def parse_literal(text: str, types: tuple[type, ...] = ()) -> Any:
    """Return the value of a Python literal, such as 5 for ``"5"``; return other text unchanged.

    If ``types`` is not empty, a literal of any other type is returned as text. If they contain
    float but not Decimal, a number with more digits than a float is rounded.
    """
    if _NO_LITERAL.match(text):
        return text
    value = _evaluate(text)
    if isinstance(value, Decimal) and types and Decimal not in types:
        value = float(value)
    if isinstance(value, types) if types else not isinstance(value, complex):
        return value
    return text


def _evaluate(text: str) -> Any:
    """Return the value of a Python literal; return a text that is not a literal unchanged."""
    if text in _WORDS:
        return _WORDS[text]
    try:
        if number := _NUMBER.fullmatch(text):
            return _parse_decimal(text) if any(number.groups()) else int(text)
        value = ast.literal_eval(text)
        if len(text) > _MAX_UNCHECKED:
            repr(value)  # raises if an integer in it cannot be text
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError, InvalidOperation):
        return text
    else:
        return text if _NOT_IN_JSON.search(text) and _is_not_json(value) else value


def _parse_decimal(text: str) -> Any:
    """Return a number as a float or Decimal; return the text unchanged if its exponent is huge."""
    value = Decimal(text)
    return as_float(value) if abs(value.adjusted()) <= _MAX_EXPONENT else text


def _is_not_json(value: Any) -> bool:
    """Return True if a value is, or contains, an Ellipsis or bytes, which JSON cannot represent."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, (list, tuple, set)):
        return any(map(_is_not_json, value))
    return isinstance(value, (EllipsisType, bytes))


def get_literal_types(options: Mapping[str, Any]) -> Mapping[str, tuple[type, ...]]:
    """Return the Python types to which the rendered option ``value`` may be converted.

    For example, ``value_type: integer`` returns ``{"value": (int,)}``; a text that is not an
    integer then stays a string. Without ``value_type`` the tuple is empty, which allows all types.
    ``options`` are the options of the component in the manifest.
    """
    kind = options.get("value_type")
    return {"value": _VALUE_TYPES.get(kind, ()) if isinstance(kind, str) else ()}


def has_template(text: str) -> bool:
    """Return True if a text contains Jinja delimiters such as ``{{``.

    Return False for a `DataText`, which is data from a response or the config and never a template.
    """
    return text.__class__ is not DataText and any(opening in text for opening in OPENINGS)


def parse_option(text: str, kind: str, types: tuple[type, ...] = (), empty: Any = "") -> Any:
    """Convert the text of a manifest's option to the option's value; templates are not rendered.

    Args:
        text: Text of the option, or the rendered text if the option is a template.
        kind: Type of the option: ``text`` for a string, ``value`` for any Python literal, such as a
            number or a list, and ``condition`` for a bool.
        types: Types that a literal in the text may have; () allows all types. A literal of another
            type stays text.
        empty: Result for an empty text, if the kind is ``value``.
    """
    if kind == "text":
        return parse_literal(text, types or (str,))
    if not text:
        return empty if kind == "value" else False
    value = parse_literal(text, types)
    if kind == "value":
        return value
    return bool(value) and value not in _FALSE_WORDS
