"""Random names, addresses and other values for stream map expressions, such as ``fake.name()``.

They come from the package Faker. An expression can call the functions of Faker's providers, but
cannot access Faker's objects, because their attributes lead to Python's builtins. Arguments of a
function are plain data. Some functions call other functions by name; they can call only functions
of the providers.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import partial
from itertools import islice
from typing import Any, Final

from tap_core.limits.bounded_operations import Bounds
from tap_core.mapper.functions import NotAllowedError

__all__ = ["FakeValues"]

_MOST: Final = 100_000
"""Maximum size, in characters or items, that an expression may request from a Faker function."""
_BOUNDS: Final = Bounds(_MOST)

_PROXIES: Final = ("optional", "unique")
_UNSIZED: Final = ("date", "pyint", "random_int", "unix_time")
"""Name prefixes of Faker functions whose number arguments are values or days, not sizes."""
_UNSIZED_ARGUMENTS: Final = frozenset({"max_value", "min_value", "step"})
"""Names of number arguments that are values, not sizes, in all Faker functions."""
_NESTED: Final = frozenset({"fixed_width", "image", "json", "json_bytes"})
"""Faker functions with sizes inside lists and objects in their arguments."""

_NUMBERS: Final[Any] = (int, float, Decimal)
_CONTAINERS: Final = (dict, list, tuple, set, frozenset)
_PLAIN: Final = (str, bytes, int, float, Decimal, dt.date, dt.time, dt.timedelta, type(None))
_TYPES: Final = (str, float, bool, list, tuple, dict, set)
"""Python types that expressions may pass to Faker functions as arguments."""


class FakeValues:
    """Object ``fake`` of stream map expressions: the functions of a Faker instance.

    In addition, it has Faker's ``unique``, ``optional``, ``seed_instance`` and ``fake["de_DE"]``.
    """

    __slots__ = ("_faker", "_names")

    def __init__(self, faker: Any, names: frozenset[str] | None = None) -> None:
        self._faker = faker
        self._names = _restrict(faker) if names is None else names

    def __getitem__(self, locale: str) -> FakeValues:
        return FakeValues(self._faker[locale], self._names)

    def __getattr__(self, name: str) -> Any:
        if name in _PROXIES:
            return FakeValues(getattr(self._faker, name), self._names)
        function = _get_function(self._faker, self._names | {"seed_instance"}, name)

        def make(*args: Any, **kwargs: Any) -> Any:
            _check_arguments(name, args, kwargs)
            value = function(*args, **kwargs)
            if isinstance(value, Iterator):  # time_series, which may have no end
                value = list(islice(value, _MOST + 1))
                _BOUNDS.check(len(value))
            return value

        return make


def _restrict(faker: Any) -> frozenset[str]:
    """Restrict a Faker instance to the functions of its providers, and return their names.

    Faker's ``pylist``, ``json``, ``pystr_format`` and others take names of functions as arguments,
    and call them. After the restriction, they can only call functions of the providers.
    """
    providers = (provider for factory in faker.factories for provider in factory.providers)
    names = frozenset(
        name
        for provider in providers
        for name in dir(provider)
        if not name.startswith("_") and callable(getattr(provider, name))
    )
    for factory in faker.factories:
        factory.get_formatter = partial(_get_function, factory, names)
    return names


def _get_function(faker: Any, names: frozenset[str], name: str) -> Callable[..., Any]:
    """Return the function ``name`` of a Faker object, if expressions may call it.

    ``names`` are the names of the functions that expressions may call.

    Raises:
        NotAllowedError: Expressions must not call the function.
    """
    if name not in names:
        raise NotAllowedError(f"Faker's '{name}' is not available in expressions")
    function: Callable[..., Any] = getattr(faker, name)
    return function


def _check_arguments(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Check that a Faker function gets plain data as arguments, and no number above a limit.

    Raises:
        LimitExceededError: A number, which may determine the size of the result, exceeds the limit.
        NotAllowedError: An argument is, or contains, a function or another object.
    """
    for value in _iterate_values([*args, *kwargs.values()]):
        if not isinstance(value, _PLAIN) and value not in _TYPES:
            raise NotAllowedError(f"{type(value).__name__} is no argument for Faker's '{name}'")
    if name.startswith(_UNSIZED):
        return
    arguments: Any = [*args, *(kwargs[key] for key in kwargs if key not in _UNSIZED_ARGUMENTS)]
    sizes: Iterable[Any] = _iterate_values(arguments) if name in _NESTED else arguments
    for size in sizes:
        if isinstance(size, _NUMBERS):
            _BOUNDS.check(abs(size))


def _iterate_values(value: Any) -> Iterator[Any]:
    """Yield the values in nested lists and dicts, including the keys of the dicts."""
    if not isinstance(value, _CONTAINERS):
        yield value
        return
    inner = (part for pair in value.items() for part in pair) if isinstance(value, dict) else value
    for part in inner:
        yield from _iterate_values(part)
