# mypy: disable-error-code="unreachable"
"""Properties that the author of a tap or target may override with a plain value.

For example, a subclass of `Sink` may contain ``max_size = 100``. mypy accepts this in place of a
property. pyright accepts it only if the declared type of the member in the base class includes
``Any``. At run time and for mypy, which treats the name ``MYPY`` as true, `overridable_property` is
therefore `property` itself; only pyright reads the other declaration.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

__all__ = ["MYPY", "is_any_overridden", "overridable_cached_property", "overridable_property"]

MYPY: Literal[False] = False
"""False at run time and for every type checker except mypy."""

if MYPY or not TYPE_CHECKING:
    overridable_property = property
    overridable_cached_property = cached_property
else:  # pragma: no cover - for pyright
    from collections.abc import Callable
    from typing import Generic, TypeVar

    _T = TypeVar("_T")

    class _Property(Generic[_T]):
        """Type that pyright sees for a property that subclasses may override with a plain value."""

        def __get__(self, instance: Any, owner: Any = None, /) -> _T: ...
        def __set__(self, instance: Any, value: _T, /) -> None: ...
        def setter(self, fset: Callable[[Any, _T], None], /) -> _Property[_T] | Any: ...

    def overridable_property(fget: Callable[[Any], _T], /) -> _Property[_T] | Any:
        """Declare a property that a subclass may override with a plain value."""

    overridable_cached_property = overridable_property


def is_any_overridden(instance: object, base: type, *names: str) -> bool:
    """Return True if any of the named members of ``base`` is overridden by a subclass or instance.

    Args:
        instance: Object of a tap's or target's class.
        base: Class of the SDK that defines the members.
        names: Names of the members.
    """
    return any(
        name in vars(instance) or getattr(type(instance), name) is not getattr(base, name)
        for name in names
    )
