"""Settings that gRPC calls may set because the operator of the server allows them.

The operator lists them in an environment variable of the server. A call cannot extend the list,
because any client that reaches the port can make calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tap_core.config.similar_names import list_names, suggest
from tap_core.exceptions import ConfigurationError

__all__ = ["AllowedNames", "get_variable_name", "parse_names"]

_MAX_NAME_LENGTH: Final = 100
_UNPRINTABLE: Final = re.compile(r"[^\x21-\x7e]")


def get_variable_name(plugin: str, suffix: str) -> str:
    """Return the name of an environment variable that configures the server of a plugin.

    It is ``TARGET_SPARK_ALLOW_SETTINGS`` for ``"target-spark"`` and ``"ALLOW_SETTINGS"``.
    """
    return f"{plugin.upper().replace('-', '_')}_{suffix}"


def parse_names(text: str | None) -> tuple[str, ...]:
    """Split a comma-separated list: ``"a, b,"`` -> ``("a", "b")``. None becomes ``()``."""
    return tuple(part for item in (text or "").split(",") if (part := item.strip()))


@dataclass(frozen=True, slots=True)
class AllowedNames:
    """Names of settings that the operator of a server allows its gRPC calls to set.

    Calls may set some settings only with this permission.

    Attributes:
        variable: Environment variable in which the operator lists the names.
        names: Names of the settings, in which ``*`` matches any characters.
    """

    variable: str
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, plugin: str, environment: Mapping[str, str]) -> AllowedNames:
        """Read from environment variables the settings that the operator allows for a plugin.

        For the plugin ``tap-petstore``, the variable is ``TAP_PETSTORE_ALLOW_SETTINGS``.
        """
        variable = get_variable_name(plugin, "ALLOW_SETTINGS")
        return cls(variable, parse_names(environment.get(variable)))

    def allows(self, name: str) -> bool:
        """Return True if the operator allows calls to set the setting ``name``."""
        return any(_matches(pattern, name) for pattern in self.names)

    def check(self, restricted: Iterable[str], known: Iterable[str] = ()) -> None:
        """Check that the operator allows all settings in ``restricted``.

        Args:
            restricted: Names of settings in a call that need the operator's permission.
            known: Names of all settings. The message suggests one of them for a misspelled name.

        Raises:
            ConfigurationError: A setting is not allowed. The message names the settings and the
                environment variable, but no values.
        """
        names = sorted({_format_name(name) for name in restricted if not self.allows(name)})
        if names:
            raise ConfigurationError(
                f"{list_names(names)}: a call may not set this.{suggest(names[0], known)} Remove it"
                " from the configuration, or have the operator of this server allow it with the"
                f" environment variable {self.variable} (for example"
                f" {self.variable}={names[0]})."
            )


def _matches(pattern: str, name: str) -> bool:
    """Return True if a setting's name matches a pattern, in which ``*`` matches any characters."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


def _format_name(name: str) -> str:
    """Shorten a setting's name for error messages, and replace unprintable characters by ``?``."""
    return _UNPRINTABLE.sub("?", name[:_MAX_NAME_LENGTH]) or "''"
