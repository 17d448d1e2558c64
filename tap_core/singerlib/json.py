"""Reading and writing of JSON: configurations, catalogs, states and single messages.

Numbers are lossless. A fraction is read as ``Decimal`` and written with the same digits. An integer
may have any size. This module is for small documents and for messages that a tap's code writes. The
records of streams have a faster encoder in ``tap_core.protocols``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

from tap_core.exceptions import DataError
from tap_core.limits.memory import STATE_BYTES, read_at_most
from tap_core.types import StrPath

__all__ = [
    "UnreadableJSONError",
    "as_text",
    "describe_json_error",
    "describe_non_utf8",
    "deserialize_json",
    "dump_json",
    "is_utf8",
    "load_json",
    "read_json_file",
    "replace_path",
    "serialize_json",
]

_SIGNATURES: Final = {
    b"\x1f\x8b": "compressed with gzip: decompress it",
    b"\x28\xb5\x2f\xfd": "compressed with Zstandard: decompress it",
    b"\xff\xfe": "UTF-16: convert it to UTF-8",
    b"\xfe\xff": "UTF-16: convert it to UTF-8",
}
"""First bytes of files that are no UTF-8 text, and what to do with these files."""

_BEYOND_ASCII = re.compile("[^\x00-\x7e]")


def replace_path(fields: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    """Return a copy of a nested dict with a value set at a path. Missing dicts are created.

    For example, ``replace_path({"a": {}}, ["a", "b"], 1)`` returns ``{"a": {"b": 1}}``.
    """
    if not path:
        return dict(fields)
    name, *rest = path
    if rest:
        below = fields.get(name)
        value = replace_path(below if isinstance(below, Mapping) else {}, rest, value)
    return {**fields, name: value}


class UnreadableJSONError(json.JSONDecodeError):
    """Raised for JSON that Python cannot parse: nested too deeply, or with too many digits."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, "", 0)

    def __str__(self) -> str:
        return str(self.msg)


def load_json(json_str: str | bytes, **kwargs: Any) -> Any:
    """Parse a JSON document. Numbers with a fraction or exponent become `Decimal`.

    Args:
        json_str: The document.
        kwargs: Further arguments of :func:`json.loads`.

    Raises:
        json.JSONDecodeError: The text is not JSON. Its subclass `UnreadableJSONError` is raised for
            JSON that Python cannot parse.
        UnicodeDecodeError: The bytes are not text.
    """
    try:
        return json.loads(json_str, **{"parse_float": Decimal, **kwargs})
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except RecursionError:
        raise UnreadableJSONError("it is nested too deeply") from None
    except (ValueError, InvalidOperation):  # sys.set_int_max_str_digits; exponents of decimals
        raise UnreadableJSONError("a number in it has too many digits") from None


deserialize_json = load_json


def describe_json_error(error: ValueError) -> str:
    """Return the reason for a JSON error, such as "Expecting value (line 1, column 5)".

    ``error`` is the exception that the JSON parser raised.
    """
    if isinstance(error, UnreadableJSONError):
        return str(error)
    if isinstance(error, json.JSONDecodeError):
        if not error.doc.strip():
            return "it is empty"
        return f"{error.msg} (line {error.lineno}, column {error.colno})"
    if isinstance(error, UnicodeDecodeError):
        return f"it is {describe_non_utf8(error.object)}"
    return str(error)


def is_utf8(content: bytes) -> bool:
    """Return True if the content of a file is UTF-8 text, also with lone surrogates."""
    try:
        content.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def describe_non_utf8(content: bytes) -> str:
    """Return the description of content that is no UTF-8 text, for the end of an error message.

    It begins with "not UTF-8 text", and names compression with gzip or Zstandard, and UTF-16.
    """
    for signature, description in _SIGNATURES.items():
        if content.startswith(signature):
            return f"not UTF-8 text, but {description}"
    return "not UTF-8 text"


def dump_json(
    obj: Any,
    *,
    indent: int | None = None,
    sort_keys: bool = False,
    default: Callable[[Any], Any] | None = None,
) -> str:
    """Return a value as JSON text. Decimals are written with all their digits.

    A lone surrogate becomes a question mark.

    Args:
        obj: Value to serialize.
        indent: Spaces per level; None for one line without spaces.
        sort_keys: True to sort the keys of objects.
        default: Function that converts a value that JSON does not support.

    Raises:
        TypeError: JSON does not support a value and ``default`` was not passed.
        DataError: A value is nested too deeply.
    """
    return _write(obj, default or _refuse, indent=indent, sort_keys=sort_keys)


def serialize_json(obj: object, **kwargs: Any) -> str:
    """Return a value, such as a Singer message, as JSON on one line.

    Datetimes become ISO 8601 strings. Other values that JSON does not support become strings. NaN
    and infinity become null. Non-ASCII characters are escaped as in singer_sdk, because a record
    may contain the result as a string, for example for a flattened array. A lone surrogate is
    escaped; if ``obj`` also contains a Decimal or NaN, it becomes a question mark.
    """
    if not kwargs:
        try:
            return json.dumps(obj, separators=(",", ":"), allow_nan=False, default=_to_text)
        except (TypeError, ValueError, RecursionError):  # decimals, NaN, odd keys, deep values
            pass
    return _BEYOND_ASCII.sub(_escape, _write(obj, as_text, **kwargs))


def read_json_file(path: StrPath) -> dict[str, Any]:
    """Return the parsed JSON document in a file.

    Raises:
        FileNotFoundError: The file does not exist. If there is a file with the same name and the
            suffix ``.template``, the message names that file.
        RuntimeError: The path is empty.
        InputTooLargeError: The file is longer than the limit.
    """
    if not path:
        raise RuntimeError("No path of a JSON file was given.")
    file = Path(path)
    if not file.exists():
        template = Path(f"{path}.template")
        hint = f" There is a template to start from: {template}" if template.exists() else ""
        raise FileNotFoundError(f"There is no file '{path}'.{hint}")
    document: dict[str, Any] = load_json(read_at_most(file, STATE_BYTES).decode("utf-8-sig"))
    return document


def _write(
    obj: Any,
    default: Callable[[Any], Any],
    *,
    indent: int | None = None,
    sort_keys: bool = False,
) -> str:
    import msgspec

    try:
        encodable = _to_encodable(obj, default)
    except RecursionError:
        raise DataError("A value is nested too deeply to be written as JSON.") from None
    encoded = msgspec.json.encode(encodable, order="sorted" if sort_keys else None)
    if indent is not None:
        encoded = msgspec.json.format(encoded, indent=indent)
    return encoded.decode()


def _to_encodable(value: Any, default: Callable[[Any], Any]) -> Any:
    """Convert a value to types that msgspec writes as JSON.

    ``default`` converts values that JSON does not support.
    """
    kind = type(value)
    if kind is str:  # the most frequent type, first for speed
        return _replace_surrogates(value)
    if kind is dict or isinstance(value, Mapping):
        return {_format_key(key): _to_encodable(item, default) for key, item in value.items()}
    if kind is list or isinstance(value, (list, tuple)):
        return [_to_encodable(item, default) for item in value]
    if value is None or isinstance(value, (str, bool, int, float, Decimal)):
        return _to_encodable_scalar(value)
    return _to_encodable(default(value), default)


def _to_encodable_scalar(value: Any) -> Any:
    """Convert a string, number, boolean or None to a type that msgspec writes as JSON.

    An integer or a Decimal becomes raw JSON with all its digits. A value of a subclass, such as an
    enum or NumPy's float64, is written as a value of the base type.
    """
    if isinstance(value, str):
        return _replace_surrogates(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Decimal):
        return _make_raw(str(value)) if value.is_finite() else None
    return value if value is None or isinstance(value, bool) else _make_raw(int.__repr__(value))


def _replace_surrogates(text: str) -> str:
    """Return a text with a question mark for each lone surrogate, which UTF-8 cannot represent."""
    if type(text) is str and text.isascii():
        return text
    return str.encode(text, "utf-8", "replace").decode()


def _make_raw(text: str) -> Any:
    import msgspec

    return msgspec.Raw(text.encode())


def _format_key(key: Any) -> str:
    """Return the key of a JSON object as text, as the json module does: True becomes "true"."""
    if isinstance(key, str):
        return _replace_surrogates(key)
    return json.dumps(key) if key is None or isinstance(key, (bool, int, float)) else str(key)


def as_text(value: Any) -> str:
    """Convert a value that JSON does not support to text: a datetime to ISO 8601."""
    return value.isoformat(sep="T") if isinstance(value, datetime) else str(value)


def _to_text(value: Any) -> str:
    """Return the text for a value that the json module cannot write, such as a datetime.

    Raises:
        TypeError: The value is a Decimal or a mapping, which must not become text.
    """
    if isinstance(value, (Decimal, Mapping)):
        raise TypeError("json.dumps has no way to write it.")
    return as_text(value)


def _escape(character: re.Match[str]) -> str:
    return json.dumps(character[0])[1:-1]


def _refuse(value: Any) -> Any:
    """Raise TypeError, because JSON does not support ``value``.

    This is the default of `dump_json`.
    """
    raise TypeError(f"A value of type '{type(value).__name__}' cannot be written as JSON.")
