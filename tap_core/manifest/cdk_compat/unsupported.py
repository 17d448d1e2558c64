"""Placeholder classes for airbyte-cdk names that this package does not support.

A file may import such a name and still contain other classes that work. Subclassing the
placeholder, instantiating it or reading its attributes fails with an error that contains the name.
"""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

__all__ = ["find_unsupported_base", "unsupported_class"]


class _Absent(ABCMeta):
    """Metaclass of placeholders; derived from ABCMeta, so that their subclasses may be abstract."""

    REASON: str

    def __call__(cls, *_args: Any, **_kwargs: Any) -> Any:
        """Raise ImportError instead of creating an instance.

        Raises:
            ImportError: always.
        """
        raise ImportError(cls.REASON)

    def __getattr__(cls, name: str) -> Any:
        """Raise AttributeError for each attribute that a class does not have.

        Raises:
            AttributeError: always.
        """
        raise AttributeError(f"{name}: {cls.REASON}")

    def __or__(cls, other: Any) -> Any:
        """Return the union type of a placeholder and another type, for type hints.

        Raises:
            ImportError: the other operand is not a type.
        """
        found = super().__or__(other)
        if found is NotImplemented:
            raise ImportError(cls.REASON)
        return found

    def __getitem__(cls, _item: Any) -> Any:
        """Return the placeholder itself: in a type hint it may be subscripted."""
        return cls


def unsupported_class(name: str, module: str) -> type:
    """Return a placeholder for a name that a connector imports from ``module``."""
    reason = f"'{name}' of {module} is not supported in custom components."
    return _Absent(name, (), {"REASON": reason})


def find_unsupported_base(cls: type) -> str | None:
    """Return the reason if a class derives from a placeholder, for the error message; else None."""
    found = next((base for base in cls.__mro__ if "REASON" in vars(base)), None)
    return str(vars(found)["REASON"]) if isinstance(found, _Absent) else None
