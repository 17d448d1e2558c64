"""Placeholder classes for airbyte-cdk names that this package does not support.

A connector's file may import such a name and still contain other classes that work. Using the
placeholder fails with an error that contains the unsupported name.
"""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

__all__ = ["find_unsupported_base", "unsupported_class"]


class _PlaceholderMeta(ABCMeta):
    """Metaclass of the placeholders for unsupported airbyte-cdk classes.

    Connectors can import a placeholder and derive from it, but not instantiate it. ABCMeta as the
    base allows abstract subclasses.
    """

    REASON: str

    def __call__(cls, *_args: Any, **_kwargs: Any) -> Any:
        """Raise ImportError, because an unsupported class cannot be instantiated."""
        raise ImportError(cls.REASON)

    def __getattr__(cls, name: str) -> Any:
        """Raise AttributeError for a missing class attribute; the message names the class."""
        raise AttributeError(f"{name}: {cls.REASON}")

    def __or__(cls, other: Any) -> Any:
        """Return the union of a placeholder and another type, for type hints such as ``A | None``.

        Raises:
            ImportError: The other operand is not a type.
        """
        union = super().__or__(other)
        if union is NotImplemented:
            raise ImportError(cls.REASON)
        return union

    def __getitem__(cls, _item: Any) -> Any:
        """Return the placeholder itself, so that type hints such as ``A[str]`` are possible."""
        return cls


def unsupported_class(name: str, module: str) -> type:
    """Return a placeholder class for an airbyte-cdk name that this package does not support.

    ``module`` is the airbyte-cdk module from which a connector imports the name.
    """
    reason = f"'{name}' of {module} is not supported in custom components."
    return _PlaceholderMeta(name, (), {"REASON": reason})


def find_unsupported_base(cls: type) -> str | None:
    """Return an error message if ``cls`` derives from an unsupported class; otherwise None."""
    placeholder = next((base for base in cls.__mro__ if "REASON" in vars(base)), None)
    return placeholder.REASON if isinstance(placeholder, _PlaceholderMeta) else None
