"""Writer of YAML documents that people read and edit, without a YAML library.

Documents contain the types of JSON. A YAML library is only an optional dependency of the SDK, and
its output is harder to read, because it folds long texts within quotes.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

__all__ = ["write_yaml"]

_WIDTH: Final = 100
_PLAIN: Final = re.compile(r"[A-Za-z][\w./-]*( [\w./()-]+)*", re.ASCII)
_PLAIN_ON_A_LINE: Final = re.compile(r"[A-Za-z][\w./-]*,?( [\w./()',;-]+)*", re.ASCII)
"""Patterns of texts that need no quotes: inside a list in brackets, and at the end of a line."""
_RESERVED: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def write_yaml(document: Mapping[str, Any]) -> str:
    """Return a document as YAML text, with a line break at its end.

    Each key of a mapping is on a separate line, in the order of the mapping. A list of scalars is
    on one line if the line has at most 100 characters. A text that is too long for one line is
    folded.
    """
    return "".join(f"{line}\n" for line in _mapping_lines(document, ""))


def _mapping_lines(mapping: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, value in mapping.items():
        key = f"{indent}{_format_text(name, _PLAIN)}:"
        inner = f"{indent}  "
        if isinstance(value, Mapping) and value:
            yield key
            yield from _mapping_lines(value, inner)
        elif isinstance(value, list) and _needs_lines(value, len(key)):
            yield key
            yield from _list_lines(value, inner)
        elif isinstance(value, str) and _is_foldable(value, len(key)):
            yield f"{key} >-"
            yield from (inner + line for line in _fold(value, _WIDTH - len(inner)))
        else:
            yield f"{key} {_format_value(value)}"


def _needs_lines(items: Sequence[Any], used: int) -> bool:
    """Return True if a list in YAML needs one line per item, because it does not fit on one line.

    A list with nested values always needs one line per item. ``used`` is the length of its key on
    the line.
    """
    is_nested = any(isinstance(item, (Mapping, list)) for item in items)
    return is_nested or used + len(_format_value(items)) + 1 > _WIDTH


def _list_lines(items: Sequence[Any], indent: str) -> Iterator[str]:
    for item in items:
        if isinstance(item, Mapping) and item:
            first, *others = _mapping_lines(item, f"{indent}  ")
            yield f"{indent}- {first.lstrip()}"
            yield from others
        else:
            yield f"{indent}- {_format_value(item)}"


def _is_foldable(text: str, used: int) -> bool:
    """Return True if a text is too long for the line of its key, and can be folded.

    A folded text is read back unchanged only if its words are separated by single spaces. ``used``
    is the number of characters that the key uses.
    """
    is_long = used + len(text) + 1 > _WIDTH
    return is_long and text.isprintable() and text == " ".join(text.split())


def _fold(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _format_value(value: Any) -> str:
    """Return a value as YAML on one line: a list in brackets, a mapping as JSON."""
    if isinstance(value, str):
        return _format_text(value, _PLAIN_ON_A_LINE)
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return f"[{', '.join(_format_text(item, _PLAIN) for item in value)}]"
    return _quote(value)


def _format_text(text: str, plain: re.Pattern[str]) -> str:
    """Return a text as YAML, in quotes if YAML would read it differently without them.

    ``plain`` is the pattern of texts that need no quotes.
    """
    if plain.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    return _quote(text)


def _quote(value: Any) -> str:
    """Return a value as JSON in which all characters are printable, so that it is also YAML."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return "".join(
        character if character.isprintable() else f"\\U{ord(character):08x}" for character in text
    )
