"""Detection of methods and properties of the SDK that a tap's code overrides.

The result decides, for example, if a stream is synced on the fast path.
"""

from __future__ import annotations

from typing import Any

__all__ = ["get_member", "is_overridden"]


def is_overridden(stream: Any, *names: str) -> bool:
    """Return True if a stream or tap overrides at least one of the named members of the SDK.

    An override may be in the class or on the object. The SDK's members are in ``stream._HOOKS``.
    """
    own = getattr(stream, "__dict__", {})
    return any(
        name in own or get_member(type(stream), name) is not stream._HOOKS[name] for name in names
    )


def get_member(owner: type, name: str) -> Any:
    """Return a class member without evaluating it: the property object, not the property's value.

    Raises:
        StopIteration: The class has no member of this name.
    """
    return next(vars(base)[name] for base in owner.__mro__ if name in vars(base))
