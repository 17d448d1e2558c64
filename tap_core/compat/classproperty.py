"""Property of a class: ``Tap.logger`` and ``tap.logger`` give the same value.

The descriptor is read-only and does not cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["classproperty"]

_T = TypeVar("_T")


class classproperty(Generic[_T]):  # noqa: N801  singer_sdk's name, used as a decorator
    """Decorator for a read-only property of a class.

    The property is computed from the class. It can be read on the class and on instances.
    """

    def __init__(self, fget: Callable[[Any], _T]) -> None:
        self.fget = fget
        self.__doc__ = fget.__doc__

    def __get__(self, instance: object, owner: type | None = None) -> _T:
        return self.fget(type(instance) if owner is None else owner)
