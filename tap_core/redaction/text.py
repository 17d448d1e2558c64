"""Removal of secrets from texts: known values, values after secret names, passwords in URLs.

A known value is found verbatim, in lower or upper case, percent-encoded, escaped (JSON, Python,
HTML), in Base64, in hexadecimal, as UTF-8 that was read as Latin-1, and broken over several lines.
The time is linear in the length of the text.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias
from urllib.parse import quote, quote_plus, unquote

from tap_core.redaction.names import is_secret_name, is_secret_parameter

__all__ = [
    "HIDDEN",
    "Secrets",
    "clean_document",
    "escape_control_characters",
    "find_embedded_secrets",
    "redact_parameters",
    "redact_text",
]

HIDDEN: Final = "***"
"""Text that replaces a secret."""

_SHORTEST: Final = 3
"""Minimum length of a hidden value, in characters; shorter ones are parts of other words."""
_SHORTEST_NUMBER: Final = 4
_SHORTEST_BASE64: Final = 8
_SHORTEST_HEX: Final = 8
_SHORTEST_LINE: Final = 16
"""Minimum length, in characters, of a line to hide in a multi-line secret such as a PEM key."""
_LONGEST_ENCODED: Final = 100_000
"""Maximum length, in characters, of a value that is hidden in other encodings too.

They take hundreds of bytes per character, and a server chooses the length of an access token.
"""
_SHORTEST_LONE_USER: Final = 16
"""Minimum length, in characters, of a user without password in a URL that counts as a token."""

_PERCENT: Final = re.compile("%[0-9A-F]{2}")
_SHORTEST_IN_ONE_CASE: Final = 8
"""Minimum length, in characters, of a value that is hidden in lower and upper case too.

Host names are written in lower case, and names of some databases in upper case.
"""

_CODES: Final = r"u(?P<json>[0-9a-fA-F]{4})|x(?P<python>[0-9a-fA-F]{2})"
_REFERENCE: Final = (
    r"&(?:\#(?P<decimal>\d{1,7})|\#[xX](?P<hex>[0-9a-fA-F]{1,6})|(?P<name>amp|lt|gt|quot|apos));"
)
_ESCAPED: Final = re.compile(rf"""\\(?:{_CODES}|(?P<sign>["'/\\]))|{_REFERENCE}""")
"""Escape sequence of JSON or Python, or character reference of HTML or XML."""
_ESCAPED_AGAIN: Final = re.compile(
    rf"""\\{{1,8}}(?:{_CODES}|(?P<sign>["'/]))|\\(?P<backslash>\\)|{_REFERENCE}"""
)
"""Escape sequence as in `_ESCAPED`, possibly escaped again, which repeats its backslashes."""
_BREAK: Final = re.compile(r"(?:[\r\n]|\\{1,8}[rn])[ \t]{0,80}")
"""Line break, possibly escaped, with the indentation of the next line."""
_PERCENT_ENCODED: Final = re.compile("(?P<percent>(?:%[0-9a-fA-F]{2})+)")
"""Percent-encoded characters. Others may stay as they are: requests encodes ``é`` but not ``/``."""
_BREAK_OR_ESCAPED: Final = re.compile(f"{_BREAK.pattern}|{_ESCAPED_AGAIN.pattern}")
_SHORTEST_BROKEN: Final = 8
"""Minimum length, in characters, of a value or encoding that is hidden across line breaks."""
_CHARACTER_BY_NAME: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_USER_INFO: Final = re.compile(r"(?:(?<=//)|(?<=/\\/)|(?<=\\/\\/))[^/?#\s\"'<>\\]+@")
_UNENCODED_LOGIN: Final = re.compile(
    r"//[^/?#\s\"'<>\\:@]*:(?!\d{1,5}[/?#])[^/?#\s\"'<>\\@]*[/?#\s\"'<>\\][^\r\n]{0,200}@"
)
"""Login in a URL whose password has a character, such as ``/``, that must be percent-encoded.

Digits after the colon are a port.
"""
_SHORTEST_PASSWORD_PART: Final = 4
_ORACLE_LOGIN: Final = re.compile(r"(?<=:thin:|:oci8:)[^\s/@]{1,200}/[^\s@]{1,200}@")
_PRIVATE_KEY: Final = re.compile(
    r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)((?:[^-]|-(?!----))+)"
    r"(?:-----END [A-Z ]{0,40}KEY-----)?"
)
"""Private key in PEM format (RFC 7468), possibly with escaped line breaks, or truncated."""
_PROSE: Final = r"""\s+[a-z]{1,12}(?=\s|$|[.,;:!?"')}\]]+(?:\s|$))"""
"""Short lower-case word after a name, a sign of prose such as "your token has expired"."""
_SCHEME: Final = re.compile(
    rf"(?<![\w/.])(Bearer|Basic|(?i:Bearer|Basic|Token)(?!{_PROSE}))\s+[\w.~+/][\w.~+/=-]*",
)
"""Credential after the name of its HTTP authentication scheme."""

_NAME: Final = re.compile(
    r"""(?<![\w.-])(?P<name>[\w.-]+)(?P<sign>\\{0,3}["']?\s{0,8}(?P<mark>[=:])\s{0,8})"""
)
_JSON_SCALAR: Final = re.compile(r"(?!(?:null|true|false)\b)(?P<value>[^\s&,;<>\[\]{}]+)")
_OPEN_QUOTE: Final = re.compile(r"""(\\*)(["'])""")
_BARE_VALUE: Final = re.compile(
    r"(?:(?i:Basic|Bearer|Digest|Negotiate|Token|AWS4-HMAC-SHA256)[ ]{1,8})?"
    r"""(?P<value>\{(?:[^}\r\n]|\}\}){1,200}\}|(?:[^\s&,;<>"']|["'](?=\w))+)"""
)
"""Value without quotes, or in braces as in ODBC's ``Pwd={a;b}``.

The name of an HTTP scheme before it is not part of the value.
"""
_QUOTE_ENDS: Final = {"'": re.compile(r"(\\*)'"), '"': re.compile(r'(\\*)"')}
_JSON_NAME: Final = re.compile(r'"\s*:\s*\Z')
"""End of the name and the colon before a value in a JSON object."""
_LONGEST_NAME: Final = 200
_HEADERS: Final = re.compile(r"(?i)authorization|cookie|[a-z0-9]+(?:-[a-z0-9]+)+")
"""HTTP header names. In prose, an unquoted value after ``:`` is secret only after such a name."""


@dataclass(frozen=True)
class Secrets:
    """Set of secret values that messages must not show, sorted by descending length."""

    values: tuple[str, ...] = ()

    @classmethod
    def from_values(cls, values: Iterable[str]) -> Secrets:
        """Return a set of the values that have at least 3 characters, or 4 if they are numbers."""
        return cls(tuple(_sort_longest_first(filter(_is_long_enough, values))))

    @classmethod
    def join(cls, parts: Iterable[Secrets]) -> Secrets:
        """Return the union of sets of secrets. Encodings that a set has computed are used again."""
        parts = list(parts)
        joined = cls.from_values(value for part in parts for value in part.values)
        forms = _sort_longest_first(form for part in parts for form in part.forms)
        vars(joined)["forms"] = tuple(forms)  # the cached property
        return joined

    @cached_property
    def forms(self) -> tuple[str, ...]:
        """The secret values in all encodings that may occur in a text, longest first."""
        return tuple(_sort_longest_first(form for value in self.values for form in _encode(value)))

    def hide(self, text: str) -> str:
        """Replace the secret values, and values after names like ``password=``, by ``***``."""
        return redact_text(self.hide_values(text))

    def hide_values(self, text: str) -> str:
        """Replace the secret values in a text by ``***``, including their encoded forms."""
        if not self.values:
            return text
        for form in self.forms:
            if form in text:
                text = text.replace(form, HIDDEN)
        if "%" in text:
            text = _hide_decoded(text, _PERCENT_ENCODED, self.forms)
        if "\\" in text or "&" in text:
            text = _hide_decoded(text, _ESCAPED, self.forms)
            text = _hide_decoded(text, _ESCAPED_AGAIN, self.forms)
        if _BREAK.search(text):
            text = _hide_decoded(text, _BREAK_OR_ESCAPED, self._long_forms)
        return text

    @cached_property
    def _long_forms(self) -> tuple[str, ...]:
        """The secret values and their encodings that are hidden even across line breaks."""
        return tuple(form for form in self.forms if len(form) >= _SHORTEST_BROKEN)

    def __or__(self, other: Secrets) -> Secrets:
        """Return the union of two sets of secrets."""
        return Secrets(tuple(_sort_longest_first((*self.values, *other.values))))


def _hide_decoded(text: str, pattern: re.Pattern[str], forms: Iterable[str]) -> str:
    """Replace secrets that are interrupted by escape sequences or line breaks by ``***``.

    ``forms`` are the secrets and their encodings. They are searched in a decoded copy of the text:
    each escape sequence that ``pattern`` matches is replaced by its characters, and line breaks are
    removed.
    """
    plain = pattern.sub(_unescape, text)
    present = [form for form in forms if form in plain]
    if not present:
        return text
    # The start and end in the text of each character of `plain`
    starts, ends = array("q"), array("q")
    position = 0
    for match in pattern.finditer(text):
        count = len(_unescape(match))
        starts.extend((*range(position, match.start()), *[match.start()] * count))
        ends.extend((*range(position + 1, match.start() + 1), *[match.end()] * count))
        position = match.end()
    starts.extend(range(position, len(text)))
    ends.extend(range(position + 1, len(text) + 1))
    spans = sorted(
        (starts[match.start()], ends[match.end() - 1])
        for form in present
        for match in re.finditer(re.escape(form), plain)
    )
    parts: list[str] = []
    position = 0
    for start, end in spans:
        if start >= position:
            parts += (text[position:start], HIDDEN)
        position = max(position, end)
    return "".join((*parts, text[position:]))


def _sort_longest_first(values: Iterable[str]) -> list[str]:
    """Return the distinct values, sorted by descending length."""
    return sorted(set(values), key=lambda value: (-len(value), value))


def _is_long_enough(value: str) -> bool:
    """Return True if a value has at least 3 characters, or 4 if it is a number."""
    return len(value) >= (_SHORTEST_NUMBER if value.isdigit() else _SHORTEST)


def _encode(value: str) -> Iterator[str]:
    """Yield a secret value and its encodings: percent, JSON, Python, hexadecimal and Base64.

    A value with more than 100,000 characters is yielded without encodings.
    """
    if len(value) > _LONGEST_ENCODED:
        yield value
        return
    for plain in filter(_is_long_enough, {value, value.strip(), *_iterate_long_lines(value)}):
        data = plain.encode("utf-8", "surrogatepass")
        quoted = {quote(data, safe=""), quote(data), quote_plus(data)}
        quoted |= {quote(form, safe=safe) for form in quoted for safe in ("", "/")}
        yield from (plain, *quoted, *(_PERCENT.sub(_to_lower_case, form) for form in quoted))
        for escaped in (json.dumps(plain)[1:-1], json.dumps(plain, ensure_ascii=False)[1:-1]):
            yield from (escaped, json.dumps(escaped)[1:-1], escaped.replace("/", "\\/"))
        yield from (repr(plain)[1:-1], repr(data)[2:-1], data.decode("latin-1"))
        if len(plain) >= _SHORTEST_IN_ONE_CASE:
            yield from (plain.lower(), plain.upper())
        if len(data.hex()) >= _SHORTEST_HEX:
            yield from (data.hex(), data.hex().upper())
        yield from _iterate_base64_forms(data)


def _unescape(match: re.Match[str]) -> str:
    """Return the character that a matched escape sequence represents, "" for a line break.

    If the character is not printable, return the sequence. For a percent-encoded text, return the
    whole decoded text.
    """
    kind = match.lastgroup
    if kind is None:
        return ""
    escaped = match[kind]
    if kind == "percent":
        return unquote(escaped)
    if kind in {"sign", "backslash", "name"}:
        return _CHARACTER_BY_NAME.get(escaped, escaped)
    code = int(escaped, 10 if kind == "decimal" else 16)
    character = chr(code) if code <= sys.maxunicode else ""
    return character if character.isprintable() else match[0]


def _to_lower_case(match: re.Match[str]) -> str:
    return match[0].lower()


def _iterate_long_lines(value: str) -> Iterator[str]:
    """Yield the long lines of a multi-line secret, such as the Base64 lines of a PEM key."""
    lines = value.splitlines()
    if len(lines) > 1:
        yield from (
            line
            for line in map(str.strip, lines)
            if len(line) >= _SHORTEST_LINE and not line.startswith("-----")
        )


def _iterate_base64_forms(data: bytes) -> Iterator[str]:
    """Yield the forms that secret bytes can have within a longer Base64 text.

    Base64 encodes groups of three bytes, so there is one form for each of three offsets.
    """
    for offset in range(3):
        skipped = (offset * 8 + 5) // 6
        bits = (offset + len(data)) * 8
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            form = encode(b"\0" * offset + data).decode("ascii")[skipped : bits // 6]
            if len(form) >= _SHORTEST_BASE64:
                yield form


# By name

_Rule: TypeAlias = Callable[..., bool]
"""Function that returns True if the value after a name in a text is to be hidden.

Its arguments are the match of the name, and ``is_quoted``, which is True for a quoted value.
"""


def redact_text(text: str) -> str:
    """Replace URL passwords, credentials, private keys and values as in ``key=x`` by ``***``."""
    if len(text) > _LONGEST_SHAPE or not _SIGNS_BEFORE_DIGITS.isdisjoint(text):
        return _replace_named(_hide_credentials(text), _is_secret_in_text)
    shape = text.translate(_DIGITS)
    if shape in _clean_shapes:
        return text
    redacted = _replace_named(_hide_credentials(text), _is_secret_in_text)
    if redacted == text:
        if len(_clean_shapes) >= _MOST_SHAPES:
            _clean_shapes.clear()
        _clean_shapes.add(shape)
    return redacted


_SIGNS_BEFORE_DIGITS: Final = frozenset("@%\\")
"""Characters of logins and escape sequences. Digits in these can determine what is secret."""

_DIGITS: Final = dict.fromkeys(range(ord("0"), ord("9") + 1), "0")
_LONGEST_SHAPE: Final = 2_000
_MOST_SHAPES: Final = 256
_clean_shapes: Final[set[str]] = set()
"""Texts without secrets, with 0 for each digit.

A log repeats the same line with other numbers for each request. Without `_SIGNS_BEFORE_DIGITS` no
rule of this module depends on the value of a digit, so texts of the same shape have no secrets
either.
"""


def redact_parameters(text: str) -> str:
    """Replace values after a secret name, as in ``password=x``, in an HTTP body by ``***``.

    The value follows its name after ``=`` or ``:``.
    """
    return _replace_named(text, _is_secret_in_body)


def _hide_credentials(text: str) -> str:
    """Replace passwords in URLs, private keys, and credentials after ``Bearer`` or ``Basic``."""
    if "@" in text:
        text = _USER_INFO.sub(f"{HIDDEN}@", text)
        text = _ORACLE_LOGIN.sub(f"{HIDDEN}@", text)
    if "-----BEGIN" in text:
        text = _PRIVATE_KEY.sub(rf"\1{HIDDEN}", text)
    return _SCHEME.sub(rf"\1 {HIDDEN}", text)


def _is_secret_in_text(name: re.Match[str], *, is_quoted: bool) -> bool:
    """Return True if the value after a matched name is secret, in a text that may contain prose.

    Prose such as "token: expired" and "exit code: 1" contains no secret. ``is_quoted`` is True if
    the value is in quotes.
    """
    if name["mark"] == ":" and not is_quoted and _HEADERS.fullmatch(name["name"]) is None:
        return False
    is_in_query = name.string[name.start() - 1 : name.start()] in {"?", "&"}
    return (is_secret_parameter if is_in_query else is_secret_name)(_get_name_end(name))


def _is_secret_in_body(name: re.Match[str], *, is_quoted: bool) -> bool:  # noqa: ARG001
    """Return True if the value after a matched name is secret, in a request or response body.

    Such a body is data, not prose, so ``is_quoted`` has no effect.
    """
    return is_secret_parameter(_get_name_end(name))


def _get_name_end(name: re.Match[str]) -> str:
    """Return the last 200 characters of a matched name, enough to decide if it is secret."""
    return name["name"][-_LONGEST_NAME:]


def _replace_named(text: str, is_hidden: _Rule) -> str:
    """Replace each secret value after a name in a text, such as ``password=x``, by ``***``.

    ``is_hidden`` decides if the value after a name is secret.
    """
    parts: list[str] = []
    position = 0
    for start, end in _iterate_named_values(text, is_hidden):
        is_json = text[start - 1] != '"' and _JSON_NAME.search(text, max(0, start - 20), start)
        parts += (text[position:start], f'"{HIDDEN}"' if is_json else HIDDEN)
        position = end
    return "".join((*parts, text[position:])) if parts else text


def _iterate_named_values(text: str, is_hidden: _Rule) -> Iterator[tuple[int, int]]:
    """Yield the start and end position of each secret value after a name, without its quotes.

    ``is_hidden`` decides if the value after a name is secret.
    """
    position = 0
    while (name := _NAME.search(text, position)) is not None:
        position = name.end()
        opening = _OPEN_QUOTE.match(text, position)
        is_quoted = opening is not None or '"' in name["sign"]
        if not is_hidden(name, is_quoted=is_quoted):
            continue
        start, end = _find_value_span(text, name, opening)
        if end > start:
            yield start, end
            position = end


def _find_value_span(
    text: str, name: re.Match[str], opening: re.Match[str] | None
) -> tuple[int, int]:
    """Return the start and end position of the value after a matched name.

    ``opening`` is the match of the value's opening quote, or None for an unquoted value.
    """
    if opening is None:
        is_json = '"' in name["sign"]
        bare = (_JSON_SCALAR if is_json else _BARE_VALUE).match(text, name.end())
        return bare.span("value") if bare else (name.end(), name.end())
    escapes, quotes = opening[1], opening[2]
    for end in _QUOTE_ENDS[quotes].finditer(text, opening.end()):
        # An even number of backslashes escapes no quote, unless the whole text is escaped.
        is_unescaped = not escapes and len(end[1]) % 2 == 0
        if is_unescaped or len(end[1]) <= len(escapes):
            return opening.end(), end.start() if end[1] == escapes else end.end() - 1
    return opening.end(), len(text)


def clean_document(value: Any, clean: Callable[[str], str], *, by_name: bool = True) -> Any:
    """Return a copy of a JSON value with its secrets replaced by ``***``.

    Args:
        value: The JSON value.
        clean: Function that removes secrets from a string.
        by_name: True to hide values of properties with a secret name. False if the names are those
            of streams or columns, which do not make a value secret.
    """
    if isinstance(value, dict):
        return {
            name: HIDDEN
            if by_name and _is_hidden(name, item)
            else clean_document(item, clean, by_name=by_name)
            for name, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [clean_document(item, clean, by_name=by_name) for item in value]
    return clean(value) if isinstance(value, str) else value


def _is_hidden(name: Any, item: Any) -> bool:
    """Return True if a property of an object has a secret name and a value other than None."""
    is_named = isinstance(name, str) and is_secret_parameter(name[-_LONGEST_NAME:])
    return is_named and item is not None


def find_embedded_secrets(text: str) -> Iterator[str]:
    """Yield the secrets in a URL or option string: ``pw`` in ``//u:pw@host`` or ``password=pw``.

    Private keys in PEM format are yielded too.
    """
    yield from (match[2] for match in _PRIVATE_KEY.finditer(text))
    for match in _USER_INFO.finditer(text):
        user, colon, password = match[0][:-1].partition(":")
        if colon:
            yield password
        elif len(user) >= _SHORTEST_LONE_USER:
            yield user
    for match in _UNENCODED_LOGIN.finditer(text):
        password = match[0][:-1].partition(":")[2]
        parts = re.split(r"[/?#\s\"'<>\\]", password)  # a parser may take one for the port
        yield from (password, *(part for part in parts if len(part) >= _SHORTEST_PASSWORD_PART))
    for match in _ORACLE_LOGIN.finditer(text):
        yield match[0][:-1].partition("/")[2]
    for start, end in _iterate_named_values(text, _is_secret_in_text):
        yield text[start:end]


# Control characters

_CONTROL: Final = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_LAST_OF_LATIN_1: Final = 0xFF
_ESCAPES: Final = {"\n": "\\n", "\r": "\\r"}


def escape_control_characters(text: str) -> str:
    r"""Replace line breaks and control characters by escapes such as ``\n`` and ``\x1b``.

    Replaced are the C0 characters except tab, DEL, the C1 characters, Unicode's line separators,
    marks of writing direction and lone surrogates. No terminal interprets the resulting line.
    """
    return text if text.isascii() and text.isprintable() else _CONTROL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    r"""Return the escape sequence of a matched control character, such as ``\x1b``."""
    letter = match[0]
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    code = ord(letter)
    return f"\\x{code:02x}" if code <= _LAST_OF_LATIN_1 else f"\\u{code:04x}"
