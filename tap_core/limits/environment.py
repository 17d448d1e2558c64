"""Numeric limits with defaults that the user can override with environment variables.

A limit restricts the time or memory that an untrusted document, pattern or expression may take.
Limits are not config settings, because the config may come from the same untrusted source.
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
    """Numeric limit: the value of an environment variable or, if that is not set, a default.

    The environment variable is read on first access and cached.
    """

    variable: str
    default: float

    @cached_property
    def value(self) -> float:
        """Value of the limit: the number in the environment variable or, if not set, the default.

        Raises:
            ConfigurationError: The environment variable is not a positive number.
        """
        text = os.environ.get(self.variable, "")
        try:
            limit = float(text) if text.strip() else self.default
        except ValueError:
            limit = math.nan
        if not 0 < limit < math.inf:
            raise ConfigurationError(
                f"The environment variable {self.variable} must be a number above zero, such as"
                f" {self.default:g}."
            )
        return limit

    @property
    def whole(self) -> int:
        """Value of the limit, rounded down to an integer."""
        return int(self.value)
