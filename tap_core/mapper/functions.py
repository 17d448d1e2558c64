"""Functions that compiled stream map expressions call, with limits on size and time.

They replace operators and attribute accesses that may be unsafe. The limits are those of simpleeval
1.0, which singer_sdk uses, so an expression has the same result with both SDKs.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import operator
import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from random import random
from time import monotonic
from types import ModuleType
from typing import Any

from tap_core.limits.bounded_operations import (
    GROWING_METHODS,
    TEMPLATE_SECONDS,
    Bounds,
    integer,
    measure_size,
)

__all__ = [
    "MUTATORS",
    "PLAIN_METHODS",
    "STANDARD_FUNCTIONS",
    "FunctionLibrary",
    "NotAllowedError",
    "OperationBudget",
    "add",
    "attribute",
    "call_method",
    "check_uuid",
    "checked_size",
    "count_element",
    "floor_divide",
    "iterate",
    "left_shift",
    "map_functions",
    "md5",
    "modulo",
    "multiply",
    "power",
    "reject_function",
    "reject_name",
    "right_shift",
    "safe_format",
    "safe_join",
    "sha256",
    "uuid4",
]

_MAX_LENGTH = 100_000
"""Maximum number of characters or items of a value that an expression creates."""

_MAX_ITERATIONS = 10_000
"""Maximum number of items over which the comprehensions of one evaluation iterate."""

_MAX_SIZE = 10_000_000
"""Maximum total size of a value in characters and items, including nested values."""

_BOUNDS = Bounds(_MAX_LENGTH)
_MAX_POWER_OPERAND = 4_000_000
"""Maximum absolute value of the base, and of the exponent, in a power."""
_SHORT_LIST = 100
"""Maximum number of items of a list that is joined without a check of the result's size."""
_ITEMS_PER_TIME_CHECK = 16
_BITS_PER_BYTE = 8
_LONG_BITS = 100_000
_LONG = 1 << _LONG_BITS
_LOWEST = -_LONG
"""Lower limit of integers that need no checks of size and time; ``_LONG`` is the upper one."""
_MAX_SHIFT = 10_000
"""Maximum number of bits in a shift operation."""
_MAX_SHIFTED = int(sys.float_info.max)
"""Maximum absolute value of the shifted number in a shift operation."""

_HIDDEN_PREFIXES = ("_", "func_")
_HIDDEN = frozenset(
    ("ag_frame", "cr_frame", "exec", "format", "format_map", "gi_frame", "mro", "tb_frame")
)
"""Names of attributes that give access to the internals of the Python interpreter."""

_FORBIDDEN = frozenset(
    (
        *(type, isinstance, eval, getattr, setattr, repr, compile, open, exec, globals, locals),
        *(os.popen, os.system, operator.attrgetter, operator.itemgetter, operator.methodcaller),
        *(
            getattr(os, name)
            for name in dir(os)
            if name.startswith(("exec", "spawn", "posix_spawn"))
        ),
    )
)
"""Functions that no expression may call or return, because they can run arbitrary code."""

MUTATORS = frozenset(
    (
        *("add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove"),
        *("reverse", "setdefault", "shuffle", "sort", "update", "difference_update"),
        *("intersection_update", "symmetric_difference_update"),
    )
)
"""Names of methods that change their object or one of their arguments."""

PLAIN_METHODS = frozenset(
    name
    for kind in (str, bytes, int, float, list, dict, set, tuple, dt.datetime, dt.timedelta)
    for name in dir(kind)
) - set(GROWING_METHODS)
"""Names of methods whose results are never large, so that their size is not checked."""

_timed = threading.local()
"""Per thread: the record of the current evaluation, and the time limit of the evaluation."""

_NUMBER_TYPES = frozenset((int, float, bool))


class NotAllowedError(Exception):
    """Raised if an expression uses a forbidden operation or exceeds a size limit."""


# Functions


def md5(string: str) -> str:
    """Return the MD5 digest of a text as hexadecimal digits; the text is encoded as UTF-8."""
    return hashlib.md5(string.encode("utf-8")).hexdigest()  # noqa: S324 - the user's choice


def sha256(string: str) -> str:
    """Return the SHA-256 digest of a text as hexadecimal digits; the text is encoded as UTF-8."""
    return hashlib.sha256(string.encode("utf-8")).hexdigest()


def uuid4() -> str:
    """Return a random UUID, as text."""
    return str(uuid.uuid4())


def check_uuid(value: Any, version: int | None = None) -> bool:
    """Return True if a value is the text of a UUID, of any version or of the given one."""
    try:
        parsed = uuid.UUID(value) if isinstance(value, str) else None
    except ValueError:
        return False
    return parsed is not None and version in {None, parsed.version}


def _random_below(top: float) -> int:
    """Return a random integer that is at least 0 and less than ``top``."""
    return int(random() * top)  # noqa: S311 - sampling, not secrets


class FunctionLibrary:
    """Wrapper of a Python module, such as ``datetime``, that exposes only its public members."""

    __slots__ = ("_module",)

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        reject_name(name)
        return getattr(self._module, name)


STANDARD_FUNCTIONS: dict[str, Any] = {
    "rand": random,
    "randint": _random_below,
    "int": integer,
    "float": float,
    "str": str,
    "list": list,
    "tuple": tuple,
    "dict": dict,
    "set": set,
}
"""Functions that every expression can call; expressions in ``__alias__`` can call no others."""


def map_functions() -> dict[str, Callable[..., Any]]:
    """Return the functions and modules that stream map expressions can use, by name."""
    return {
        **STANDARD_FUNCTIONS,
        "md5": md5,
        "sha256": sha256,
        "datetime": FunctionLibrary(dt),
        "bool": bool,
        "json": FunctionLibrary(json),
        "uuid4": uuid4,
        "check_uuid": check_uuid,
    }


# Bounds


def reject_name(name: str) -> None:
    """Raise NotAllowedError if an expression must not access an attribute of this name.

    These are private names, and names of attributes that give access to interpreter internals.
    """
    if name.startswith(_HIDDEN_PREFIXES) or name in _HIDDEN:
        raise NotAllowedError(f"the attribute '{name}' is not available to expressions")


def reject_function(function: Any) -> None:
    """Raise NotAllowedError if a value is a function that is forbidden, such as ``eval``."""
    if callable(function) and function in _FORBIDDEN:
        raise NotAllowedError("this function is forbidden in expressions")


def attribute(value: Any, name: str) -> Any:
    """Return the attribute ``name`` of a value or, if it is missing, the item ``name``.

    Raises:
        NotAllowedError: The value has neither, or the attribute is a module or a forbidden
            function.
    """
    # `reject_name` has already checked the name when the expression was compiled.
    try:
        member = getattr(value, name)
    except (AttributeError, TypeError):
        member = _item(value, name)
    if type(value) is str:
        return member
    if isinstance(member, ModuleType):
        raise NotAllowedError("modules are not available to expressions")
    reject_function(member)
    return member


def _item(value: Any, name: str) -> Any:
    """Return ``value[name]``: an item of a dict or another container.

    Raises:
        NotAllowedError: The value has no such item.
    """
    try:
        return value[name]
    except (KeyError, TypeError):
        kind = type(value).__name__
        raise NotAllowedError(f"a value of type '{kind}' has no attribute '{name}'") from None


def checked_size(value: Any) -> Any:
    """Check the length of a value, and return the value unchanged.

    Raises:
        NotAllowedError: The value has more than 100,000 characters or items.
    """
    if hasattr(value, "__len__") and len(value) > _MAX_LENGTH:
        raise NotAllowedError(f"a value of {len(value):,} characters or items is too long")
    return value


def add(left: Any, right: Any) -> Any:
    """Return ``left + right``: the sum of numbers, or the concatenation of texts or lists.

    Raises:
        NotAllowedError: The result would be too long.
    """
    if (
        type(left) not in _NUMBER_TYPES
        and hasattr(left, "__len__")
        and hasattr(right, "__len__")
        and len(left) + len(right) > _MAX_LENGTH
    ):
        raise NotAllowedError("the sum of these two would be too long")
    return left + right


def multiply(record: Any, left: Any, right: Any) -> Any:
    """Return ``left * right``: the product of numbers, or a repeated text or list.

    ``record`` is the record for which the expression is evaluated. The time per record is limited.

    Raises:
        NotAllowedError: The result would be too long, or the time limit is exceeded.
    """
    if type(left) not in _NUMBER_TYPES or type(right) not in _NUMBER_TYPES:
        for sequence, times in ((left, right), (right, left)):
            if hasattr(sequence, "__len__") and times * len(sequence) > _MAX_LENGTH:
                raise NotAllowedError("the product of these two would be too long")
            if (
                isinstance(sequence, (list, tuple))
                and times * measure_size(sequence, _MAX_SIZE) > _MAX_SIZE
            ):
                raise _make_size_error()
    elif _is_long(left) or _is_long(right):
        _check_time(record)
        return _BOUNDS.multiply(left, right)
    return left * right


def _is_long(value: Any) -> bool:
    return type(value) is int and not _LOWEST < value < _LONG


def _check_time(record: Any) -> None:
    """Check the total time that operations with large integers take for one record.

    Raises:
        NotAllowedError: The operations take longer than `TEMPLATE_SECONDS`.
    """
    now = monotonic()
    if getattr(_timed, "record", None) is not record:
        _timed.record, _timed.end = record, now + TEMPLATE_SECONDS.value
    elif now > _timed.end:
        raise _make_timeout_error()


def _make_timeout_error() -> NotAllowedError:
    return NotAllowedError(
        f"it takes longer than {TEMPLATE_SECONDS.value:g} seconds: simplify it, or raise"
        f" {TEMPLATE_SECONDS.variable}"
    )


def _make_size_error() -> NotAllowedError:
    return NotAllowedError(f"a value of more than {_MAX_SIZE:,} characters or items is too large")


def power(record: Any, base: Any, exponent: Any) -> Any:
    """Return ``base ** exponent``.

    ``record`` is the record for which the expression is evaluated. The time per record is limited.

    Raises:
        NotAllowedError: The absolute value of an operand exceeds 4,000,000, or the time limit is
            exceeded.
    """
    if abs(base) > _MAX_POWER_OPERAND or abs(exponent) > _MAX_POWER_OPERAND:
        raise NotAllowedError("a number is too high to be raised to a power")
    if type(base) is type(exponent) is int and exponent * base.bit_length() > _LONG_BITS:
        _check_time(record)
    return _BOUNDS.power(base, exponent)


def modulo(record: Any, left: Any, right: Any) -> Any:
    """Return ``left % right``: a remainder or, if ``left`` is text, the formatted text.

    ``record`` is the record for which the expression is evaluated. The time per record is limited.
    """
    if _is_long(left):
        _check_time(record)
    elif type(left) in _NUMBER_TYPES:
        return left % right
    return _BOUNDS.modulo(left, right)


def floor_divide(record: Any, left: Any, right: Any) -> Any:
    """Return ``left // right``.

    ``record`` is the record for which the expression is evaluated. The time per record is limited.
    """
    if not _is_long(left):
        return left // right
    _check_time(record)
    return _BOUNDS.floor_divide(left, right)


def call_method(value: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """Call the method ``name`` of a value and return the result, whose size is limited.

    Raises:
        LimitExceededError: The result would be too large.
    """
    # For speed, `replace` and `join` of short texts are called without a check.
    if value.__class__ is str and not kwargs:
        if name == "replace" and len(args) == 2:  # noqa: PLR2004  without a count
            if (len(value) + 1) * (len(args[1]) + 1) <= _MAX_LENGTH:
                return value.replace(*args)
        elif name == "join" and args and args[0].__class__ is list and len(args[0]) <= _SHORT_LIST:
            return value.join(args[0])
    return _BOUNDS.call(attribute(value, name), *args, **kwargs)


def left_shift(value: Any, bits: Any) -> Any:
    """Return ``value << bits``; raise NotAllowedError if an operand is too large."""
    _check_shift(value, bits)
    return value << bits


def right_shift(value: Any, bits: Any) -> Any:
    """Return ``value >> bits``; raise NotAllowedError if an operand is too large."""
    _check_shift(value, bits)
    return value >> bits


def _check_shift(value: Any, bits: Any) -> None:
    """Raise NotAllowedError if an operand of a bit shift is too large."""
    if abs(bits) > _MAX_SHIFT or abs(value) > _MAX_SHIFTED:
        raise NotAllowedError("a number is too high to be shifted")


def safe_join(*parts: Any) -> str:
    """Join the parts of an f-string to a text; each part is converted to text first.

    Raises:
        NotAllowedError: A part has more than 100,000 characters.
    """
    return "".join(
        [str(part) if type(part) in _NUMBER_TYPES else checked_size(str(part)) for part in parts]
    )


def safe_format(value: Any, form: str) -> str:
    """Format a value by a format specification such as ``.2f``; the size of the text is limited."""
    _BOUNDS.check_spec(value, form)
    return ("{:" + form + "}").format(value)


class OperationBudget:
    """Limits of all comprehensions in one evaluation of an expression.

    The remaining iterations and the remaining size, in characters and items, decrease during the
    evaluation. The evaluation must end before the time ``end``, as returned by `time.monotonic`.
    """

    __slots__ = ("end", "iterations", "size")

    def __init__(self) -> None:
        self.iterations = _MAX_ITERATIONS
        self.size = _MAX_SIZE
        self.end = monotonic() + TEMPLATE_SECONDS.value


def count_element(budget: OperationBudget, value: Any) -> Any:
    """Return an element of a comprehension, after subtracting its size from the budget.

    Raises:
        NotAllowedError: The budget is used up.
    """
    kind = value.__class__
    if kind not in _NUMBER_TYPES:
        budget.size -= len(value) if kind is str else measure_size(value, _MAX_SIZE)
    elif kind is int and not _LOWEST < value < _LONG:
        budget.size -= value.bit_length() // _BITS_PER_BYTE
    if budget.size < 0:
        raise _make_size_error()
    return value


def iterate(
    budget: OperationBudget, items: Iterable[Any], nesting: tuple[Any, ...] | None
) -> Iterator[Any]:
    """Yield the items over which a comprehension iterates; reduce the budget by 1 for each.

    ``nesting`` describes the loop variables: None for a single variable, a tuple for several ones,
    such as ``(None, (None, None))`` for ``a, (b, c)``. For a tuple, each item is unpacked to a
    tuple of the same nesting. The time is checked at every 16th item.

    Raises:
        NotAllowedError: The budget or the time is used up.
    """
    for item in items:
        budget.iterations -= 1
        if budget.iterations < 0:
            raise NotAllowedError(f"comprehensions have more than {_MAX_ITERATIONS:,} iterations")
        if not budget.iterations % _ITEMS_PER_TIME_CHECK and monotonic() > budget.end:
            raise _make_timeout_error()
        yield item if nesting is None else _unpack(item, nesting)


def _unpack(item: Any, nesting: tuple[Any, ...]) -> tuple[Any, ...]:
    """Unpack an item of a comprehension to a tuple that corresponds to the loop variables.

    ``nesting`` describes the variables, such as ``(None, (None, None))`` for ``a, (b, c)``. Values
    beyond the number of variables are dropped.
    """
    return tuple(
        part if inner is None else _unpack(part, inner)
        for inner, part in zip(nesting, item, strict=False)
    )
