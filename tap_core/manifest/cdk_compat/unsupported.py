"""Placeholders for airbyte-cdk names that this package does not support.

A file may import such a name and still contain other classes that work. Subclassing it,
instantiating it or reading its attributes fails with an error that contains the name.
"""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

__all__ = ["find_unsupported_base", "unsupported_class"]


class _Absent(ABCMeta):
    """Metaclass of placeholders; based on ABCMeta, so that their subclasses may be abstract."""

    REASON: str

    def __call__(cls, *_args: Any, **_kwargs: Any) -> Any:
        """Refuse to create an instance.

        Raises:
            ImportError: always.
        """
        raise ImportError(cls.REASON)

    def __getattr__(cls, name: str) -> Any:
        """Refuse access to an attribute.

        Raises:
            AttributeError: always.
        """
        raise AttributeError(f"{name}: {cls.REASON}")

    def __or__(cls, other: Any) -> Any:
        """Return a union type hint.

        Raises:
            ImportError: the other operand is not a type.
        """
        found = super().__or__(other)
        if found is NotImplemented:
            raise ImportError(cls.REASON)
        return found

    def __getitem__(cls, _item: Any) -> Any:
        """Return the placeholder, so that it can be subscripted in a type hint."""
        return cls


def unsupported_class(name: str, module: str) -> type:
    """Return a placeholder for a name of a module."""
    reason = f"'{name}' of {module} is not supported in custom components."
    return _Absent(name, (), {"REASON": reason})


def find_unsupported_base(cls: type) -> str | None:
    """Return the reason if the class derives from a placeholder, else None."""
    found = next((base for base in cls.__mro__ if "REASON" in vars(base)), None)
    return str(vars(found)["REASON"]) if isinstance(found, _Absent) else None
