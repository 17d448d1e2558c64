"""A property of the class: ``Tap.logger`` and ``tap.logger`` are the same.

Rules of the room: one descriptor, read only, nothing is cached here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["classproperty"]

_T = TypeVar("_T")


class classproperty(Generic[_T]):  # noqa: N801  singer_sdk's name, used as a decorator
    """Compute an attribute from the class, whether asked of it or of an instance."""

    def __init__(self, fget: Callable[[Any], _T]) -> None:
        self.fget = fget
        self.__doc__ = fget.__doc__

    def __get__(self, instance: object, owner: type | None = None) -> _T:
        return self.fget(type(instance) if owner is None else owner)
