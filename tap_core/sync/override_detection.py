"""Whether an author has his own version of a member.

Rules of the room: asked once per stream or tap, when something is decided; never per record.
"""

from __future__ import annotations

from typing import Any

__all__ = ["get_member", "is_overridden"]


def is_overridden(stream: Any, *names: str) -> bool:
    """Return True when a class or object has its own version of one of these members.

    ``stream._HOOKS`` holds the base class's versions.
    """
    own = getattr(stream, "__dict__", {})
    return any(
        name in own or get_member(type(stream), name) is not stream._HOOKS[name] for name in names
    )


def get_member(kind: type, name: str) -> Any:
    """Return a class's member as it is written there, descriptors and all."""
    return next(vars(base)[name] for base in kind.__mro__ if name in vars(base))
