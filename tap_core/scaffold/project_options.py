"""Options of a new project: name, kind, authentication and pagination.

An invalid option raises `ProjectError`, whose message lists the valid values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tap_core.scaffold.auth import AUTHENTICATION
from tap_core.scaffold.pagination import PAGINATION
from tap_core.scaffold.settings import KIND_SETTINGS, ProjectSetting

__all__ = ["KINDS", "RESERVED_NAMES", "Project", "ProjectError"]

KINDS: Final[dict[str, tuple[str, ...]]] = {
    "tap": ("rest", "graphql", "sql", "other"),
    "target": ("batch", "record", "sql"),
}
"""Kinds of projects by plugin type; the first kind is the default."""

RESERVED_NAMES: Final = frozenset(
    {"tap-core", "tap-core-sdk", "tap-manifest", "target-spark", "target-batch", "target-record"}
)
"""Plugin names that would hide a package, command or class (`BatchSink`) of the SDK."""

_NAME: Final = re.compile(r"(tap|target)(-[a-z][a-z0-9]*)+")
_PAGINATIONS: Final = {"rest": tuple(PAGINATION), "graphql": ("cursor",)}
_NEITHER: Final = ("none",)


class ProjectError(ValueError):
    """Raised if a project cannot be created: an option is invalid or the folder is not empty."""


@dataclass(frozen=True)
class Project:
    """Validated options of a project that `tap-core new` creates.

    Attributes:
        name: Name of the plugin and its command, such as ``tap-example``.
        kind: Kind of the plugin, one of `KINDS`, such as ``rest``.
        auth: Authentication method of an HTTP tap.
        pagination: Pagination method of an HTTP tap.
    """

    name: str
    kind: str
    auth: str
    pagination: str

    @classmethod
    def from_options(
        cls, name: str, kind: str | None = None, auth: str | None = None, pages: str | None = None
    ) -> Project:
        """Create the validated options of a new project from command-line options.

        Args:
            name: Name of the plugin, such as ``tap-example``.
            kind: Kind of the plugin. None means ``rest`` for a tap, and ``batch`` for a target.
            auth: Authentication method. None means ``none``.
            pages: Pagination method. None means ``none`` or, for GraphQL, ``cursor``.

        Raises:
            ProjectError: The name or an option is invalid; the message lists the valid values.
        """
        if not _NAME.fullmatch(name):
            raise ProjectError(
                f"{name!r} is not a valid plugin name. A name begins with tap- or target-, and has"
                " words of lower-case letters and digits, each beginning with a letter, joined by"
                " hyphens: tap-my-shop."
            )
        plugin_type, _, rest = name.partition("-")
        if name in RESERVED_NAMES:
            raise ProjectError(
                f"{name!r} is a name of the SDK, which the new package would hide: choose another"
                f" name, such as '{plugin_type}-my-{rest}'."
            )
        kind = _choose("kind", kind, KINDS[plugin_type], f"a {plugin_type}")
        owner = f"a {plugin_type} of the kind {kind}"
        http = plugin_type == "tap" and kind in _PAGINATIONS
        return cls(
            name,
            kind,
            _choose("auth", auth, tuple(AUTHENTICATION) if http else _NEITHER, owner),
            _choose("pagination", pages, _PAGINATIONS[kind] if http else _NEITHER, owner),
        )

    @property
    def settings(self) -> tuple[ProjectSetting, ...]:
        """Settings of the plugin: first those of its kind, then those of its authentication."""
        return (
            *KIND_SETTINGS[f"{self.plugin_type}_{self.kind}"],
            *AUTHENTICATION[self.auth].settings,
        )

    @property
    def plugin_type(self) -> str:
        """Type of the plugin: ``tap`` or ``target``."""
        return self.name.partition("-")[0]

    @property
    def package(self) -> str:
        """Name of the Python package, such as ``tap_example``."""
        return self.name.replace("-", "_")

    @property
    def class_name(self) -> str:
        """Name of the plugin's class, such as ``TapExample``."""
        return "".join(word.capitalize() for word in self.name.split("-"))

    @property
    def source(self) -> str:
        """Name of the source or destination in class names: ``Example`` for ``tap-example``."""
        return self.class_name.removeprefix(self.plugin_type.capitalize())


def _choose(choice: str, value: str | None, possible: tuple[str, ...], owner: str) -> str:
    """Return the ``value`` of the command-line option ``--<choice>``, by default ``possible[0]``.

    ``owner`` is the plugin in the error message: "a tap of the kind sql".

    Raises:
        ProjectError: The value is not in ``possible``.
    """
    if value is not None and value not in possible:
        choices = " or ".join(filter(None, (", ".join(possible[:-1]), possible[-1])))
        raise ProjectError(f"--{choice} {value} is not possible for {owner}: use {choices}.")
    return value or possible[0]
