"""Detection of members that an author overrides.

The check runs once per stream or tap when a decision depends on it, never per record.
"""

from __future__ import annotations

from typing import Any

__all__ = ["get_member", "is_overridden"]


def is_overridden(stream: Any, *names: str) -> bool:
    """Return True if a tap's code overrides at least one of the named members.

    An override may be in the class or on the object. The SDK's members are in ``stream._HOOKS``.
    """
    own = getattr(stream, "__dict__", {})
    return any(
        name in own or get_member(type(stream), name) is not stream._HOOKS[name] for name in names
    )


def get_member(kind: type, name: str) -> Any:
    """Return a class member as defined in the class: the property or function, not its value."""
    return next(vars(base)[name] for base in kind.__mro__ if name in vars(base))
