"""Deprecated names of members of `Stream` and `Tap` that were renamed.

An old name works for one more version. Reading it, setting it, or overriding it in a subclass has
the same effect as with the new name, and emits a `DeprecationWarning`.
"""

from __future__ import annotations

import warnings
from typing import Any

__all__ = ["RenamedMember", "adopt_renamed_members"]


class RenamedMember:
    """Descriptor for the old name of a renamed member; it reads and sets the renamed member."""

    def __init__(self, new_name: str) -> None:
        """Create a descriptor for the member that is now called ``new_name``."""
        self.new_name = new_name

    def __set_name__(self, owner: type, name: str) -> None:
        """Store the old name, which is the attribute that the descriptor is assigned to."""
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        """Return the member called ``new_name``, and emit a deprecation warning."""
        self.warn(owner, stacklevel=3)
        return getattr(owner if instance is None else instance, self.new_name)

    def __set__(self, instance: Any, value: Any) -> None:
        """Set the member called ``new_name``, and emit a deprecation warning."""
        self.warn(type(instance), stacklevel=3)
        setattr(instance, self.new_name, value)

    def warn(self, owner: type, *, stacklevel: int) -> None:
        """Emit a DeprecationWarning that names the old and the new member of class ``owner``."""
        warnings.warn(
            f"`{owner.__name__}.{self.name}` is deprecated: use `{self.new_name}`.",
            DeprecationWarning,
            stacklevel=stacklevel + 1,
        )


def adopt_renamed_members(owner: type) -> None:
    """Rename members that a subclass defines under a deprecated name, with a warning for each.

    ``__init_subclass__`` calls this function, so that these members override the renamed members.

    Raises:
        TypeError: The class defines a member under both names.
    """
    for name in [*vars(owner)]:
        alias = next((vars(base)[name] for base in owner.__mro__[1:] if name in vars(base)), None)
        if not isinstance(alias, RenamedMember):
            continue
        if alias.new_name in vars(owner):
            raise TypeError(
                f"{owner.__name__} defines both `{name}` and `{alias.new_name}`, which are two"
                f" names of the same member: remove `{name}`."
            )
        alias.warn(owner, stacklevel=3)
        setattr(owner, alias.new_name, vars(owner)[name])
        delattr(owner, name)
