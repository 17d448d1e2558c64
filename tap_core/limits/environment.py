"""Limits on what input may cost, each an environment variable of the operator with a default.

A limit bounds time or memory that a document, a pattern or an expression of somebody else may
take. Settings do not carry them, because settings may come from the same stranger.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cached_property

from tap_core.exceptions import ConfigurationError

__all__ = ["Limit"]


@dataclass(frozen=True)
class Limit:
    """A number that an environment variable may replace, read once per process."""

    variable: str
    default: float

    @cached_property
    def value(self) -> float:
        """The limit in force.

        Raises:
            ConfigurationError: the variable holds no positive number.
        """
        text = os.environ.get(self.variable, "")
        try:
            given = float(text) if text.strip() else self.default
        except ValueError:
            given = math.nan
        if not 0 < given < math.inf:
            raise ConfigurationError(
                f"The environment variable {self.variable} is a number above zero, such as"
                f" {self.default:g}."
            )
        return given

    @property
    def whole(self) -> int:
        """The limit in force as an integer."""
        return int(self.value)
