"""Setting names that the operator of a server allows any call to set.

The names come from an environment variable of the process, which the operator controls. The
configuration of a call, which any client of the port controls, never adds to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tap_core.exceptions import ConfigurationError

__all__ = ["AllowedNames", "get_variable_name", "parse_names"]

_LONGEST_NAME: Final = 100
_MOST_NAMES: Final = 10
_UNPRINTABLE: Final = re.compile(r"[^\x21-\x7e]")


def get_variable_name(plugin: str, what: str) -> str:
    """Return the name of the environment variable with which an operator allows a plugin something.

    For plugin ``target-spark`` and ``what`` ``ALLOW_SETTINGS`` it is
    ``TARGET_SPARK_ALLOW_SETTINGS``.
    """
    return f"{plugin.upper().replace('-', '_')}_{what}"


def parse_names(text: str | None) -> tuple[str, ...]:
    """Return the items of a comma-separated list without surrounding blanks.

    Empty items are dropped.
    """
    return tuple(part for each in (text or "").split(",") if (part := each.strip()))


@dataclass(frozen=True, slots=True)
class AllowedNames:
    """Further settings that gRPC calls may set because the operator of the server allows them.

    The operator lists them in the environment variable ``variable``. In ``names``, ``*`` matches
    any characters.
    """

    variable: str
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, plugin: str, environment: Mapping[str, str]) -> AllowedNames:
        """Return the settings that the operator allows for a plugin by an environment variable."""
        variable = get_variable_name(plugin, "ALLOW_SETTINGS")
        return cls(variable, parse_names(environment.get(variable)))

    def allows(self, name: str) -> bool:
        """Return True if the operator has listed this setting."""
        return any(_matches(pattern, name) for pattern in self.names)

    def check(self, refused: Iterable[str]) -> None:
        """Check that the operator allows all settings in ``refused``, the ones the tap refuses.

        Raises:
            ConfigurationError: A setting is not allowed. The message names the settings and the
                environment variable, but no values.
        """
        names = sorted({_format_name(name) for name in refused if not self.allows(name)})
        if names:
            more = len(names) - _MOST_NAMES
            told = ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
            raise ConfigurationError(
                f"{told}: a call may not set this. Remove it from the configuration, or have the"
                " operator of this server allow it with the environment variable"
                f" {self.variable} (for example {self.variable}={names[0]})."
            )


def _matches(pattern: str, name: str) -> bool:
    """Return True if a setting's name matches a pattern, in which ``*`` matches any characters."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


def _format_name(name: str) -> str:
    """Return a setting's name for messages: shortened, and unprintable characters become ``?``."""
    return _UNPRINTABLE.sub("?", name[:_LONGEST_NAME]) or "''"
