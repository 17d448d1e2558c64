"""Bounded versions of operations by which a short expression makes a large value.

Templates of manifests and expressions of stream maps use them instead of operators and methods.
The size of a result is estimated before it is computed, never too low. Sizes are counted in
characters and items; a value that is referenced several times counts each time.
"""

from __future__ import annotations

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
    "weight",
]

TEMPLATE_LENGTH: Final = Limit("TAP_CORE_TEMPLATE_LENGTH", 10_000_000)
"""Maximum number of characters or items of one value in a template."""
TEMPLATE_SECONDS: Final = Limit("TAP_CORE_TEMPLATE_SECONDS", 10)
"""Maximum seconds of the evaluation of a template."""

_MOST_BITS: Final = 4_000_000
"""Maximum bits of an integer that is the result of a power or a product."""
_MOST_DIGITS: Final = 100_000
"""Maximum integer digits of a decimal that is converted to an integer or to text."""
_SMALL: Final = 1 << 64
_LONGEST_TIME_FORMAT: Final = 1_000
"""Maximum length of a format of dates, in characters; each directive takes time."""
_INDENT: Final = 100
_FAKED_NUMBERS: Final = ("random_", "py", "unix_time", "date")
_DIGITS: Final = re.compile(r"\d+")
_PERCENT: Final = re.compile(r"%(\([^()]*\))?[-#0 +]*(\*|\d*)(?:\.(\*|\d*))?")
_TEXTS: Final = (str, bytes, bytearray)
_HOLDERS: Final = (dict, list, tuple, set, frozenset)


def weight(value: Any, most: int) -> int:
    """Return the total number of characters and items in a value, including nested values.

    Counting stops when the total exceeds ``most``.
    """
    return _weight(value, most, {})


def _weight(value: Any, most: int, known: dict[int, int]) -> int:
    if isinstance(value, _TEXTS):
        return len(value)
    if not isinstance(value, _HOLDERS):
        return 1
    if id(value) not in known:
        known[id(value)] = total = 1
        inner: Iterable[Any] = value
        if isinstance(value, dict):
            inner = (member for pair in value.items() for member in pair)
        for member in inner:
            total += _weight(member, most, known)
            if total > most:
                break
        known[id(value)] = total
    return known[id(value)]


def integer(value: Any = 0, *base: Any) -> int:
    """Return ``int(value, *base)``, as the function ``int`` of expressions.

    Raises:
        LimitExceededError: The value is a Decimal with too many digits.
    """
    if value.__class__ is Decimal and _digits(value) > _MOST_DIGITS:
        raise LimitExceededError(
            f"An integer made of a decimal may have {_MOST_DIGITS:,} digits, and this one has more."
        )
    return int(value, *base)


def check_time_format(text: Any) -> None:
    """Check the length of a format string for dates or times.

    Raises:
        LimitExceededError: The format string is too long.
    """
    if isinstance(text, str) and len(text) > _LONGEST_TIME_FORMAT:
        raise LimitExceededError(
            f"A format of dates may have {_LONGEST_TIME_FORMAT:,} characters, and this one has"
            f" {len(text):,}: make it shorter."
        )


def _digits(value: Any) -> int:
    """Return the number of digits that a Decimal has if it is written without an exponent."""
    is_number = isinstance(value, Decimal) and value.is_finite()
    return abs(value.adjusted()) if is_number else 0


def _ints(values: Iterable[Any]) -> list[int]:
    """Return all integers in the values and in strings among them.

    A format string may use such an integer as a width, which makes its result long.
    """
    numbers = [abs(value) for value in values if isinstance(value, int)]
    return [
        *numbers,
        *(number for value in values if isinstance(value, str) for number in _numbers(value)),
    ]


def _numbers(text: str) -> list[int]:
    """Return the integers in a text."""
    return [int(digits[:12]) for digits in _DIGITS.findall(text)]


@dataclass(frozen=True)
class Bounds:
    """Size limit for the values in expressions, with functions that check it.

    The text ``hint`` is appended to error messages.
    """

    most: int
    hint: str = "make it shorter"

    def check(self, size: float) -> None:
        """Check that a size, in characters or items, does not exceed the limit.

        Raises:
            LimitExceededError: The size exceeds the limit.
        """
        if size > self.most:
            raise LimitExceededError(
                f"A value would have more than {self.most:,} characters or items: {self.hint}."
            )

    # Operators

    def add(self, left: Any, right: Any) -> Any:
        """Return the sum of two numbers, or the concatenation of two sequences.

        Raises:
            LimitExceededError: The result would be too large.
        """
        if isinstance(left, (*_TEXTS, list, tuple)) and isinstance(right, (*_TEXTS, list, tuple)):
            self.check(len(left) + len(right))
        return left + right

    def multiply(self, left: Any, right: Any) -> Any:
        """Return the product of two numbers, or a repeated sequence.

        Raises:
            LimitExceededError: The result would be too large.
        """
        for many, times in ((left, right), (right, left)):
            if isinstance(many, (*_TEXTS, list, tuple)) and isinstance(times, int):
                self.check(times * weight(many, self.most))
        if isinstance(left, int) and isinstance(right, int):
            self._check_bits(left.bit_length() + right.bit_length())
        return left * right

    def power(self, base: Any, exponent: Any) -> Any:
        """Return a number raised to a power.

        Raises:
            LimitExceededError: The result would be too large.
        """
        if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1:
            self._check_bits(math.log2(abs(base)) * exponent)
        return base**exponent

    def modulo(self, left: Any, right: Any) -> Any:
        """Return the remainder of a division, or a string formatted by ``%``.

        Raises:
            LimitExceededError: The result would be too large.
        """
        if isinstance(left, _TEXTS):
            text = left if isinstance(left, str) else bytes(left).decode("latin-1")
            self.check_percent(text, right)
        return left % right

    def _check_bits(self, bits: float) -> None:
        """Raise LimitExceededError for an integer with too many bits."""
        if bits > _MOST_BITS:
            raise LimitExceededError(
                f"A number may have {_MOST_BITS:,} bits, and this one would have more."
            )

    # Texts with places for values

    def check_percent(self, text: str, arguments: Any) -> None:
        """Check the size of the result of ``text % arguments``.

        Raises:
            LimitExceededError: The result would be too large.
        """
        values = list(arguments) if isinstance(arguments, tuple) else [arguments]
        if isinstance(arguments, Mapping):
            values = [*arguments, *arguments.values()]
        fields = _PERCENT.findall(text)
        widths = [number for field in fields for number in _numbers(f"{field[1]} {field[2]}")]
        if any("*" in field[1:] for field in fields):
            widths += _ints(values)
        if text.count("%(") > sum(bool(field[0]) for field in fields):
            widths += _numbers(text)
        self._check_filled(text, len(fields), widths, values)

    def check_format(self, text: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Check the size of the result of ``text.format(*args, **kwargs)``.

        Raises:
            LimitExceededError: The result would be too large.
        """
        values = [*args, *kwargs.values()]
        if len(values) == 1 and isinstance(values[0], Mapping):  # format_map
            values += values[0].values()
        try:
            fields = [spec for _, name, spec, _ in Formatter().parse(text) if name is not None]
        except ValueError:
            return  # str.format raises the error
        widths = [number for spec in fields for number in _numbers(spec or "")]
        if any("{" in (spec or "") for spec in fields):
            widths += _ints(values)
        self._check_filled(text, len(fields), widths, values)

    def check_spec(self, value: Any, spec: str) -> None:
        """Check the size of the result of ``format(value, spec)``.

        Raises:
            LimitExceededError: The result would be too large.
        """
        self._check_filled("", 1, _numbers(spec), [value])

    def _check_filled(
        self, text: str, places: int, widths: Sequence[int], values: Sequence[Any]
    ) -> None:
        """Check the size of a text after its placeholders are replaced by values.

        Args:
            text: The text.
            places: Number of placeholders.
            widths: Minimum widths that the placeholders specify.
            values: The values.
        """
        widest = max((0, *widths)) + max((0, *map(_digits, values)))
        self.check(len(text) + places * (widest + weight(list(values), self.most)))

    def join(self, separator: Any, parts: Iterable[Any]) -> Any:
        """Return the parts joined by a separator.

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
        """Call a function for an expression and return the result.

        The size of the result is estimated before the call.

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
            elif type(owner).__module__.startswith("faker."):
                self._check_faked(name, [*args, *kwargs.values()])
        elif function is json.dumps:
            self._check_dump(args, kwargs)
        return function(*args, **kwargs)

    def _check_faked(self, name: str, values: Sequence[Any]) -> None:
        """Check the numbers passed to a method of Faker, because the result may have that size."""
        if not name.startswith(_FAKED_NUMBERS):
            self.check(
                max(
                    (
                        0,
                        *(
                            abs(argument)
                            for argument in values
                            if isinstance(argument, (int, float))
                        ),
                    )
                )
            )

    def _check_dump(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Check that the indent and the separators passed to `json.dumps` are not too long."""
        between = [kwargs.get("indent"), *(kwargs.get("separators") or ())]
        widths = [
            separator if isinstance(separator, int) else len(separator)
            for separator in between
            if separator is not None
        ]
        self.check(max((0, *widths)) * _INDENT * max(1, weight(args, self.most)))


# Methods


def _widened(owner: Any, args: Sequence[Any], kwargs: Mapping[str, Any], most: int) -> int:
    """Return the estimated size of the result of a padding method, such as ``ljust``.

    It is the largest integer among the arguments, because that may be the width.
    """
    del owner, most
    return max(
        (0, *(argument for argument in (*args, *kwargs.values()) if isinstance(argument, int)))
    )


def _tabs_expanded(owner: Any, args: Sequence[Any], kwargs: Mapping[str, Any], most: int) -> int:
    width = _widened(owner, args or (8,), kwargs, most)
    tab: Any = "\t" if isinstance(owner, str) else b"\t"
    return len(owner) + owner.count(tab) * width if isinstance(owner, _TEXTS) else 0


def _replaced(owner: Any, args: Sequence[Any], kwargs: Mapping[str, Any], most: int) -> int:
    del kwargs, most
    if not isinstance(owner, _TEXTS) or len(args) < 2:  # noqa: PLR2004  a date's, or an error
        return 0
    old, new = args[:2]
    return len(owner) + owner.count(old) * max(0, len(new) - len(old))


def _translated(owner: Any, args: Sequence[Any], kwargs: Mapping[str, Any], most: int) -> int:
    del kwargs, most
    table = args[0] if args and isinstance(args[0], Mapping) else {}
    widest = max(
        (1, *(len(replacement) for replacement in table.values() if isinstance(replacement, str)))
    )
    return len(owner) * widest if isinstance(owner, _TEXTS) else 0


def _extended(owner: Any, args: Sequence[Any], kwargs: Mapping[str, Any], most: int) -> int:
    del kwargs
    return weight(owner, most) + weight(args, most) if isinstance(owner, list) else 0


def _time_formatted(owner: Any, args: Sequence[Any], kwargs: Mapping[str, Any], most: int) -> int:
    del owner, most
    for text in (*args, *kwargs.values()):
        check_time_format(text)
    return 0


def _in_fractions(owner: Any, args: Sequence[Any], kwargs: Mapping[str, Any], most: int) -> int:
    del args, kwargs
    return most + 1 if _digits(owner) > _MOST_DIGITS else 0


_ESTIMATES: Final[Mapping[str, Callable[[Any, Sequence[Any], Mapping[str, Any], int], int]]] = {
    "as_integer_ratio": _in_fractions,
    "center": _widened,
    "expandtabs": _tabs_expanded,
    "extend": _extended,
    "ljust": _widened,
    "replace": _replaced,
    "rjust": _widened,
    "strftime": _time_formatted,
    "to_bytes": _widened,
    "translate": _translated,
    "zfill": _widened,
}
GROWING_METHODS: Final = frozenset({*_ESTIMATES, "join"})
"""Methods of values whose result may be much larger than these."""
