"""Type guards: isinstance checks that narrow the type of a value for a strict type checker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

__all__ = ["is_dict", "is_list", "is_mapping"]


def is_dict(value: Any) -> TypeGuard[dict[Any, Any]]:
    """Return True if the value is a dict; its keys and values may have any type."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Return True if the value is a list; its items may have any type."""
    return isinstance(value, list)


def is_mapping(value: Any) -> TypeGuard[Mapping[Any, Any]]:
    """Return True if the value is a mapping; its keys and values may have any type."""
    return isinstance(value, Mapping)
