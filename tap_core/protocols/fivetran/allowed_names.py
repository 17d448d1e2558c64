"""Names of settings that the operator of a server lets every call bring.

Pure. The names come from the environment of the process, which the operator controls; a call's
configuration, which any client of the port controls, never adds to them.
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
    """Return the name of an operator's variable: ``TARGET_SPARK_ALLOW_SETTINGS``."""
    return f"{plugin.upper().replace('-', '_')}_{what}"


def parse_names(text: str | None) -> tuple[str, ...]:
    """Return the parts of a comma separated list, without empty ones."""
    return tuple(part for each in (text or "").split(",") if (part := each.strip()))


@dataclass(frozen=True, slots=True)
class AllowedNames:
    """The settings that the operator allows calls to bring, and the variable that says so.

    ``names`` are names of settings; a ``*`` in them stands for any characters.
    """

    variable: str
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, plugin: str, environment: Mapping[str, str]) -> AllowedNames:
        """Return what the environment allows for a plugin."""
        variable = get_variable_name(plugin, "ALLOW_SETTINGS")
        return cls(variable, parse_names(environment.get(variable)))

    def allows(self, name: str) -> bool:
        """Return True if the operator named this setting."""
        return any(_matches(pattern, name) for pattern in self.names)

    def check(self, refused: Iterable[str]) -> None:
        """Raise an error for settings that a call may not bring, unless the operator named them.

        Raises:
            ConfigurationError: names the settings and the operator's variable; no value.
        """
        names = sorted({_shown(name) for name in refused if not self.allows(name)})
        if names:
            more = len(names) - _MOST_NAMES
            told = ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
            raise ConfigurationError(
                f"{told}: a call may not set this. Take it out of the configuration; or the"
                " operator of this server allows it by the environment variable"
                f" {self.variable} (for example {self.variable}={names[0]})."
            )


def _matches(pattern: str, name: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


def _shown(name: str) -> str:
    """Return a name that a client chose as an error may repeat it."""
    return _UNPRINTABLE.sub("?", name[:_LONGEST_NAME]) or "''"
