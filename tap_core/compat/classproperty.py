"""Decorator `classproperty`: a property that can be read on a class and on its instances.

For example, ``Tap.logger`` and ``tap.logger`` return the same value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["classproperty"]

_T = TypeVar("_T")


class classproperty(Generic[_T]):  # noqa: N801  singer_sdk's name, used as a decorator
    """Decorator for a read-only property that is computed from the class at each access.

    The property can be read on the class and on its instances.
    """

    def __init__(self, fget: Callable[[Any], _T]) -> None:
        self.fget = fget
        self.__doc__ = fget.__doc__

    def __get__(self, instance: object, owner: type | None = None) -> _T:
        return self.fget(type(instance) if owner is None else owner)
