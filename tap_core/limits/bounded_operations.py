"""Operations such as ``*`` and ``join`` with a limit on the size of their results.

Templates in manifests and stream map expressions call them, because a short expression such as
``"a" * 10**9`` could fill the memory. The size of a result, in characters and items, is estimated
before the result is computed. The estimate is never too low.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from string import Formatter
from types import BuiltinFunctionType, MethodType
from typing import Any, Final, cast

from tap_core.exceptions import LimitExceededError
from tap_core.limits.environment import Limit

__all__ = [
    "GROWING_METHODS",
    "TEMPLATE_LENGTH",
    "TEMPLATE_SECONDS",
    "Bounds",
    "check_time_format",
    "integer",
    "measure_size",
]

TEMPLATE_LENGTH: Final = Limit("TAP_CORE_TEMPLATE_LENGTH", 10_000_000)
"""Maximum number of characters or items of one value in a template."""
TEMPLATE_SECONDS: Final = Limit("TAP_CORE_TEMPLATE_SECONDS", 10)
"""Maximum number of seconds that the evaluation of a template may take."""

_MOST_BITS: Final = 4_000_000
"""Maximum number of bits of an integer that a power or a product returns."""
_MOST_DIVISION: Final = 10**10
"""Maximum product of a divisor's bits and the quotient's bits: a division of about 20 ms."""
_MOST_DIGITS: Final = 100_000
"""Maximum number of integer digits of a Decimal that is converted to an integer or text."""
_LONGEST_TIME_FORMAT: Final = 1_000
"""Maximum length of a datetime format, in characters, because each directive takes time."""
_LONGEST_DOMAIN: Final = 1_000
"""Maximum length of a text encoded as a domain name: the time grows with the length squared."""
_DOMAIN_CODECS: Final = frozenset({"idna", "punycode"})
_LONGEST_ESCAPES: Final[Mapping[str, int]] = {"namereplace": 100, "xmlcharrefreplace": 10}
"""Maximum length of an escaped character, by the codec error handler that escapes it."""
_JSON_DEPTH: Final = 100
"""Depth of nesting that is assumed for the size of indented JSON text."""
_DIGITS: Final = re.compile(r"\d+")
_PERCENT: Final = re.compile(r"%(\([^()]*\))?[-#0 +]*(\*|\d*)(?:\.(\*|\d*))?")
"""Regular expression for a placeholder of ``%``; groups: key, width and precision."""
_TEXTS: Final = (str, bytes, bytearray)
_CONTAINERS: Final = (dict, list, tuple, set, frozenset)


def measure_size(value: Any, most: int) -> int:
    """Return the size of a value: the number of its characters and items, including nested ones.

    A value that occurs several times counts each time. Counting stops when the size exceeds
    ``most``.
    """
    return _measure_size(value, most, {})


def _measure_size(value: Any, most: int, sizes: dict[int, int]) -> int:
    if isinstance(value, _TEXTS):
        return len(value)
    if not isinstance(value, _CONTAINERS):
        return 1
    if id(value) not in sizes:
        sizes[id(value)] = total = 1  # also ends the recursion for a value that contains itself
        inner: Iterable[Any] = value
        if isinstance(value, dict):
            inner = (member for pair in value.items() for member in pair)
        for member in inner:
            kind = member.__class__
            if kind is str:
                total += len(member)
            else:
                total += 1 if kind is int or kind is float else _measure_size(member, most, sizes)
            if total > most:
                break
        sizes[id(value)] = total
    return sizes[id(value)]


def integer(value: Any = 0, *base: Any) -> int:
    """Return ``int(value, *base)``; expressions call this function as ``int``.

    Raises:
        LimitExceededError: The value is a Decimal with more than 100,000 integer digits.
    """
    if value.__class__ is Decimal and _count_digits(value) > _MOST_DIGITS:
        raise LimitExceededError(
            f"An integer from a decimal may have {_MOST_DIGITS:,} digits, but this one has more."
        )
    return int(value, *base)


def check_time_format(text: Any) -> None:
    """Raise LimitExceededError if a datetime format string has more than 1,000 characters.

    The time of functions such as ``strftime`` grows with the number of directives.
    """
    if isinstance(text, str) and len(text) > _LONGEST_TIME_FORMAT:
        raise LimitExceededError(
            f"A date-time format may have {_LONGEST_TIME_FORMAT:,} characters, but this one has"
            f" {len(text):,}: make it shorter."
        )


def _count_digits(value: Any) -> int:
    """Return the approximate number of digits of a Decimal without an exponent.

    For example, ``1E+1000`` has 1,000 digits. Return 0 for values of other types.
    """
    is_number = isinstance(value, Decimal) and value.is_finite()
    return abs(value.adjusted()) if is_number else 0


def _collect_integers(values: Iterable[Any]) -> list[int]:
    """Return the values that are integers, and the integers inside values that are strings.

    Formatting may use any of them as the width of a placeholder, which makes its result long.
    """
    numbers = [abs(value) for value in values if isinstance(value, int)]
    return numbers + _find_integers(" ".join(value for value in values if isinstance(value, str)))


def _find_integers(text: str) -> list[int]:
    """Return the integers in a text: 5 and 12 for ``a5b12``.

    Of longer integers, only the first twelve digits are used: that is more than any limit.
    """
    return [int(digits[:12]) for digits in _DIGITS.findall(text)]


def _check_division(left: Any, right: Any) -> None:
    """Raise LimitExceededError if a division of two integers would take too long."""
    if isinstance(left, int) and isinstance(right, int):
        divisor = right.bit_length()
        if divisor * (left.bit_length() - divisor) > _MOST_DIVISION:
            raise LimitExceededError(
                f"A number of {left.bit_length():,} bits is too long to be divided by one of"
                f" {divisor:,} bits."
            )


@dataclass(frozen=True)
class Bounds:
    """Size limit for the values in an expression, with operators that check their results.

    Attributes:
        most: Maximum number of characters and items of a value.
        hint: Advice for the user at the end of error messages.
    """

    most: int
    hint: str = "make it shorter"

    def check(self, size: float) -> None:
        """Raise LimitExceededError if a size exceeds the limit `most`.

        Args:
            size: Number of characters or items of the value.
        """
        if size > self.most:
            raise LimitExceededError(
                f"A value would have more than {self.most:,} characters or items: {self.hint}."
            )

    # Operators

    def add(self, left: Any, right: Any) -> Any:
        """Return ``left + right``: the sum of numbers, or the concatenation of texts or lists.

        Raises:
            LimitExceededError: The result would be too large.
        """
        if isinstance(left, (*_TEXTS, list, tuple)) and isinstance(right, (*_TEXTS, list, tuple)):
            self.check(len(left) + len(right))
        return left + right

    def multiply(self, left: Any, right: Any) -> Any:
        """Return ``left * right``: the product of numbers, or a repeated text or list.

        Raises:
            LimitExceededError: The result would be too large.
        """
        for sequence, times in ((left, right), (right, left)):
            if isinstance(sequence, (*_TEXTS, list, tuple)) and isinstance(times, int):
                self.check(times * measure_size(sequence, self.most))
        if isinstance(left, int) and isinstance(right, int):
            self._check_bits(left.bit_length() + right.bit_length())
        return left * right

    def power(self, base: Any, exponent: Any) -> Any:
        """Return ``base ** exponent``.

        Raises:
            LimitExceededError: The result would be too large.
        """
        if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1:
            self._check_bits(math.log2(abs(base)) * exponent)
        return base**exponent

    def modulo(self, left: Any, right: Any) -> Any:
        """Return ``left % right``: a remainder or, if ``left`` is text, the formatted text.

        Raises:
            LimitExceededError: The result would be too large.
        """
        if isinstance(left, _TEXTS):
            text = left if isinstance(left, str) else bytes(left).decode("latin-1")
            self.check_percent(text, right)
        _check_division(left, right)
        return left % right

    def floor_divide(self, left: Any, right: Any) -> Any:
        """Return ``left // right``.

        Raises:
            LimitExceededError: The division of these integers would take too long.
        """
        _check_division(left, right)
        return left // right

    def _check_bits(self, bits: float) -> None:
        """Raise LimitExceededError if an integer would have more than 4,000,000 bits."""
        if bits > _MOST_BITS:
            raise LimitExceededError(
                f"A number may have {_MOST_BITS:,} bits, but this one would have more."
            )

    # Format strings

    def check_percent(self, text: str, arguments: Any) -> None:
        """Raise LimitExceededError if ``text % arguments`` would be longer than `most`."""
        values = list(arguments) if isinstance(arguments, tuple) else [arguments]
        if isinstance(arguments, Mapping):
            values = [*arguments, *arguments.values()]
        fields = _PERCENT.findall(text)
        widths = _find_integers(" ".join(part for field in fields for part in field[1:]))
        if any("*" in field[1:] for field in fields):  # then the width is one of the arguments
            widths += _collect_integers(values)
        if text.count("%(") > sum(bool(key) for key, _, _ in fields):  # a key with parentheses
            widths += _find_integers(text)
        self._check_filled(text, len(fields), widths, values)

    def check_format(self, text: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise LimitExceededError if ``text.format(*args, **kwargs)`` would exceed `most`."""
        values = [*args, *kwargs.values()]
        if len(values) == 1 and isinstance(values[0], Mapping):  # format_map
            values += values[0].values()
        try:
            fields = [spec for _, name, spec, _ in Formatter().parse(text) if name is not None]
        except ValueError:
            return  # str.format raises the error
        widths = [number for spec in fields for number in _find_integers(spec or "")]
        if any("{" in (spec or "") for spec in fields):
            widths += _collect_integers(values)
        self._check_filled(text, len(fields), widths, values)

    def check_spec(self, value: Any, spec: str) -> None:
        """Raise LimitExceededError if ``format(value, spec)`` would be longer than `most`."""
        self._check_filled("", 1, _find_integers(spec), [value])

    def _check_filled(
        self, text: str, placeholders: int, widths: Sequence[int], values: Sequence[Any]
    ) -> None:
        """Raise LimitExceededError if a text with ``values`` inserted would exceed the limit.

        ``text`` is the format string, ``placeholders`` the number of its placeholders, and
        ``widths`` are their minimum widths.
        """
        widest = max((0, *widths)) + max((0, *map(_count_digits, values)))
        self.check(len(text) + placeholders * (widest + measure_size(list(values), self.most)))

    def join(self, separator: Any, parts: Iterable[Any]) -> Any:
        """Return ``separator.join(parts)``.

        Raises:
            LimitExceededError: The result would be too large.
        """
        items = parts if parts.__class__ is list else list(parts)
        try:
            sizes = sum(map(len, cast("list[str]", items)))
        except TypeError:  # str.join raises a clear error for items that are not strings
            sizes = 0
        self.check(sizes + len(separator) * len(items))
        return separator.join(items)

    # Calls

    def call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the result of a function or method call; estimate its size before the call.

        Raises:
            LimitExceededError: The result would be too large.
        """
        if isinstance(function, (BuiltinFunctionType, MethodType)):
            owner, name = function.__self__, function.__name__
            if name == "join" and isinstance(owner, _TEXTS) and len(args) == 1:
                return self.join(owner, args[0])
            estimate = _ESTIMATES.get(name)
            if estimate is not None:
                self.check(estimate(owner, args, kwargs, self.most))
        elif function is json.dumps:
            self._check_dump(args, kwargs)
        return function(*args, **kwargs)

    def _check_dump(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise LimitExceededError if ``indent`` or ``separators`` make a JSON text too long.

        ``args`` and ``kwargs`` are the arguments of `json.dumps`.
        """
        between = [kwargs.get("indent"), *(kwargs.get("separators") or ())]
        widths = [
            separator if isinstance(separator, int) else len(separator)
            for separator in between
            if separator is not None
        ]
        self.check(max((0, *widths)) * _JSON_DEPTH * max(1, measure_size(args, self.most)))


# Methods


def _estimate_padding(owner: Any, args: Sequence[Any], kwargs: Mapping[str, Any], most: int) -> int:
    """Return the maximum size of the text that a padding method such as ``ljust`` returns.

    This is the largest integer among the arguments of the call, because any of them can set the
    width.
    """
    del owner, most
    return max(
        (0, *(argument for argument in (*args, *kwargs.values()) if isinstance(argument, int)))
    )


def _estimate_expandtabs(
    owner: Any, args: Sequence[Any], kwargs: Mapping[str, Any], most: int
) -> int:
    width = _estimate_padding(owner, args or (8,), kwargs, most)
    tab: Any = "\t" if isinstance(owner, str) else b"\t"
    return len(owner) + owner.count(tab) * width if isinstance(owner, _TEXTS) else 0


def _estimate_coding(owner: Any, args: Sequence[Any], kwargs: Mapping[str, Any], most: int) -> int:
    """Return the maximum size of the result of the method ``encode`` or ``decode`` of ``owner``.

    ``owner`` is a text or bytes; ``args`` and ``kwargs`` are the arguments of its method.

    Raises:
        LimitExceededError: The method is to use an encoding of domain names, such as ``idna``, and
            the text is too long for a domain name.
    """
    del most
    if not isinstance(owner, _TEXTS):
        return 0
    names = [name for name in (*args, *kwargs.values()) if isinstance(name, str)]
    if len(owner) > _LONGEST_DOMAIN and any(map(_is_domain_codec, names)):
        raise LimitExceededError(
            f"A text to be encoded as a domain name may have {_LONGEST_DOMAIN:,} characters, but"
            f" this one has {len(owner):,}."
        )
    return len(owner) * max((1, *(_LONGEST_ESCAPES.get(name, 1) for name in names)))


def _is_domain_codec(name: str) -> bool:
    try:
        return codecs.lookup(name).name in _DOMAIN_CODECS
    except (LookupError, ValueError):
        return False


def _estimate_replace(owner: Any, args: Sequence[Any], kwargs: Mapping[str, Any], most: int) -> int:
    del kwargs, most
    if not isinstance(owner, _TEXTS) or len(args) < 2:  # noqa: PLR2004  a date's, or an error
        return 0
    old, new = args[:2]
    return len(owner) + owner.count(old) * max(0, len(new) - len(old))


def _estimate_translate(
    owner: Any, args: Sequence[Any], kwargs: Mapping[str, Any], most: int
) -> int:
    del kwargs, most
    table = args[0] if args and isinstance(args[0], Mapping) else {}
    widest = max(
        (1, *(len(replacement) for replacement in table.values() if isinstance(replacement, str)))
    )
    return len(owner) * widest if isinstance(owner, _TEXTS) else 0


def _estimate_extend(owner: Any, args: Sequence[Any], kwargs: Mapping[str, Any], most: int) -> int:
    del kwargs
    return measure_size(owner, most) + measure_size(args, most) if isinstance(owner, list) else 0


def _estimate_strftime(
    owner: Any, args: Sequence[Any], kwargs: Mapping[str, Any], most: int
) -> int:
    del owner, most
    for text in (*args, *kwargs.values()):
        check_time_format(text)
    return 0


def _estimate_ratio(owner: Any, args: Sequence[Any], kwargs: Mapping[str, Any], most: int) -> int:
    """Return the estimated size of ``owner.as_integer_ratio()``.

    It is ``most + 1``, which is too large, for a Decimal with too many digits, otherwise 0.
    """
    del args, kwargs
    return most + 1 if _count_digits(owner) > _MOST_DIGITS else 0


_ESTIMATES: Final[Mapping[str, Callable[[Any, Sequence[Any], Mapping[str, Any], int], int]]] = {
    "as_integer_ratio": _estimate_ratio,
    "center": _estimate_padding,
    "decode": _estimate_coding,
    "encode": _estimate_coding,
    "expandtabs": _estimate_expandtabs,
    "extend": _estimate_extend,
    "ljust": _estimate_padding,
    "replace": _estimate_replace,
    "rjust": _estimate_padding,
    "strftime": _estimate_strftime,
    "to_bytes": _estimate_padding,
    "translate": _estimate_translate,
    "zfill": _estimate_padding,
}
"""Functions that return the maximum size of the result of a method, by the method's name.

Their arguments are the object, the positional and keyword arguments of the method, and the limit.
They return 0 if the result cannot be much larger than the object and the arguments.
"""
GROWING_METHODS: Final = frozenset({*_ESTIMATES, "join"})
"""Names of methods whose result may be much larger than the object and the arguments."""
