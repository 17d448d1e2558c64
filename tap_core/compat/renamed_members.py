"""Members of `Stream` and `Tap` under the names that they had in an earlier version.

An old name works for one version: reading it, setting it on an object and defining it in a
subclass have the effect of the new name and a `DeprecationWarning`.
"""

from __future__ import annotations

import warnings
from typing import Any

__all__ = ["RenamedMember", "adopt_renamed_members"]


class RenamedMember:
    """Descriptor for a member's old name; it gives access to the member under its new name."""

    def __init__(self, new_name: str) -> None:
        """Create a descriptor that refers to ``new_name``."""
        self.new_name = new_name

    def __set_name__(self, owner: type, name: str) -> None:
        """Store the old name: the attribute to which the descriptor is assigned."""
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        """Return the member called ``new_name``, and emit a warning."""
        self.warn(owner, stacklevel=3)
        return getattr(owner if instance is None else instance, self.new_name)

    def __set__(self, instance: Any, value: Any) -> None:
        """Set the member called ``new_name``, and emit a warning."""
        self.warn(type(instance), stacklevel=3)
        setattr(instance, self.new_name, value)

    def warn(self, owner: type, *, stacklevel: int) -> None:
        """Emit a DeprecationWarning about the use of the old name in a class."""
        warnings.warn(
            f"`{owner.__name__}.{self.name}` is deprecated: use `{self.new_name}`.",
            DeprecationWarning,
            stacklevel=stacklevel + 1,
        )


def adopt_renamed_members(owner: type) -> None:
    """Rename members that a subclass defines under an old name, so that they override the new name.

    This is called in ``__init_subclass__``.

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
