"""Definition of a new project: name, kind, authentication and pagination.

Nothing is written here. An invalid combination is rejected with a list of the valid options.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tap_core.scaffold.auth import AUTHENTICATION
from tap_core.scaffold.pagination import PAGINATION

__all__ = ["KINDS", "Project", "ProjectError"]

KINDS: Final[dict[str, tuple[str, ...]]] = {
    "tap": ("rest", "graphql", "sql", "other"),
    "target": ("batch", "record", "sql"),
}
"""Kinds of projects by plugin type; the first kind is the default."""

_NAME: Final = re.compile(r"(tap|target)(-[a-z][a-z0-9]*)+")
_PAGES_OF: Final = {"rest": tuple(PAGINATION), "graphql": ("cursor",)}
_NEITHER: Final = ("none",)


class ProjectError(ValueError):
    """The project cannot be created with the chosen options."""


@dataclass(frozen=True)
class Project:
    """A project, created by `of`. ``name`` is its command, such as ``tap-example``."""

    name: str
    kind: str
    auth: str
    pagination: str

    @classmethod
    def of(
        cls, name: str, kind: str | None = None, auth: str | None = None, pages: str | None = None
    ) -> Project:
        """Return a project; None selects the default of an option.

        Raises:
            ProjectError: the name or an option is invalid; the message lists the valid options.
        """
        if not _NAME.fullmatch(name):
            raise ProjectError(
                f"{name!r} is no name of a plugin: tap-… or target-…, lower-case letters and"
                " digits, words joined by a dash."
            )
        what = name.partition("-")[0]
        kind = _among("kind", kind, KINDS[what])
        http = what == "tap" and kind in _PAGES_OF
        return cls(
            name,
            kind,
            _among("auth", auth, tuple(AUTHENTICATION) if http else _NEITHER),
            _among("pagination", pages, _PAGES_OF[kind] if http else _NEITHER),
        )

    @property
    def what(self) -> str:
        """The plugin type: ``tap`` or ``target``."""
        return self.name.partition("-")[0]

    @property
    def package(self) -> str:
        """The name of the Python package: ``tap_example``."""
        return self.name.replace("-", "_")

    @property
    def class_name(self) -> str:
        """The name of the plugin's class: ``TapExample``."""
        return "".join(word.capitalize() for word in self.name.split("-"))

    @property
    def source(self) -> str:
        """The name of the source or destination as a class name prefix: ``Example``."""
        return self.class_name.removeprefix(self.what.capitalize())


def _among(choice: str, given: str | None, possible: tuple[str, ...]) -> str:
    if given is not None and given not in possible:
        raise ProjectError(f"--{choice} {given} is not possible here; {', '.join(possible)} is.")
    return given or possible[0]
