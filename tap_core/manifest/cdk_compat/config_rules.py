"""Base classes for custom transformations and validations of the config."""

from __future__ import annotations

from typing import Any

__all__ = ["ConfigTransformation", "ValidationStrategy"]


class ConfigTransformation:
    """Base class of transformations that change the config in place."""

    def transform(self, config: dict[str, Any]) -> None:
        """Change the connector's config in place; implemented by subclasses."""
        raise NotImplementedError


class ValidationStrategy:
    """Base class of validations, which check a value of the config."""

    def validate(self, value: Any) -> None:
        """Raise ValueError if a value of the config is not valid; implemented by subclasses."""
        raise NotImplementedError
