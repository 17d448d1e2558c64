# mypy: disable-error-code="unreachable"
"""Declarations for type checkers, so that authors may override properties with plain values.

For example, a subclass may contain ``max_size = 100``. mypy accepts this in place of a property.
pyright accepts it only if the nearest base class assigns a descriptor instead of declaring a
property. Such descriptors are assigned in blocks that only pyright reads: ``if TYPE_CHECKING and
not MYPY``, where mypy treats the name ``MYPY`` as true. At run time the classes here are empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

__all__ = [
    "MYPY",
    "AuthorProperty",
    "SinkOverrides",
    "TargetOverrides",
    "is_any_overridden",
]

_T = TypeVar("_T")
MYPY: Literal[False] = False
"""False at run time and for every type checker except mypy."""


class AuthorProperty(Generic[_T]):
    """Property that a subclass may override with a plain value, such as ``max_size = 100``.

    It exists only for type checkers: pyright rejects such an override of an ordinary property.
    """

    def __get__(self, instance: Any, owner: Any = None, /) -> _T:
        """Declare the type of the value for type checkers; never called at run time."""
        raise NotImplementedError

    def __set__(self, instance: Any, value: _T, /) -> None:
        """Declare for type checkers that the value can be set; never called at run time."""
        raise NotImplementedError


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


if MYPY or not TYPE_CHECKING:

    class SinkOverrides:
        """Base class of sinks, empty at run time; declares overridable properties for pyright."""

    class TargetOverrides:
        """Base class of `Target`, empty at run time; declares overridable members for pyright."""

else:  # pragma: no cover - for pyright
    from collections.abc import Sequence

    class SinkOverrides:
        """Base class of sinks; declares for pyright which properties subclasses may override."""

        max_size = AuthorProperty[int]()
        batch_size_rows = AuthorProperty[int | None]()
        current_size = AuthorProperty[int]()
        key_properties = AuthorProperty[Sequence[str]]()
        include_sdc_metadata_properties = AuthorProperty[bool]()
        process_activate_version_messages = AuthorProperty[bool]()

    class TargetOverrides:
        """Base class of `Target`; declares for pyright which properties subclasses may override."""

        max_parallelism = AuthorProperty[int]()
