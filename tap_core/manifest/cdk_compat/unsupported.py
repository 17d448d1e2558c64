"""Stand-ins for names of airbyte-cdk that are not here.

Rules of the room: a file may import such a name and have other classes that run. Whoever extends
it, makes one or asks something of it is told which name it is.
"""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

__all__ = ["find_unsupported_base", "unsupported_class"]


class _Absent(ABCMeta):
    """The class of stand-ins; what extends one may be abstract besides."""

    REASON: str

    def __call__(cls, *_args: Any, **_kwargs: Any) -> Any:
        """Refuse to make one.

        Raises:
            ImportError: always.
        """
        raise ImportError(cls.REASON)

    def __getattr__(cls, name: str) -> Any:
        """Refuse to say anything.

        Raises:
            AttributeError: always.
        """
        raise AttributeError(f"{name}: {cls.REASON}")

    def __or__(cls, other: Any) -> Any:
        """Return a type hint of both.

        Raises:
            ImportError: something else is to be joined with it.
        """
        found = super().__or__(other)
        if found is NotImplemented:
            raise ImportError(cls.REASON)
        return found

    def __getitem__(cls, _item: Any) -> Any:
        """Return the stand-in: it may be part of a type hint."""
        return cls


def unsupported_class(name: str, module: str) -> type:
    """Return a stand-in for a name of a module."""
    reason = f"'{name}' of {module} is not part of what custom components may use here."
    return _Absent(name, (), {"REASON": reason})


def find_unsupported_base(cls: type) -> str | None:
    """Return why a class cannot be used: what it extends is a stand-in; None where it can."""
    found = next((base for base in cls.__mro__ if "REASON" in vars(base)), None)
    return str(vars(found)["REASON"]) if isinstance(found, _Absent) else None
