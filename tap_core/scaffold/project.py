"""What a new project is to be: its name, its kind and what its source asks for.

Rules of the room: nothing is written here. A choice that makes no sense together with
another is refused, with those that do.
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
"""What a project can be, and of which kinds; the first is the usual one."""

_NAME: Final = re.compile(r"(tap|target)(-[a-z][a-z0-9]*)+")
_PAGES_OF: Final = {"rest": tuple(PAGINATION), "graphql": ("cursor",)}
_NEITHER: Final = ("none",)


class ProjectError(ValueError):
    """The project cannot be made as it was asked for."""


@dataclass(frozen=True)
class Project:
    """One project, made by `of`. ``name`` is that of its command, such as ``tap-example``."""

    name: str
    kind: str
    auth: str
    pagination: str

    @classmethod
    def of(
        cls, name: str, kind: str | None = None, auth: str | None = None, pages: str | None = None
    ) -> Project:
        """Return a project; what is None is the usual.

        Raises:
            ProjectError: a name or a choice that cannot be; the message says which can.
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
        """``tap`` or ``target``."""
        return self.name.partition("-")[0]

    @property
    def package(self) -> str:
        """Name of the Python package: ``tap_example``."""
        return self.name.replace("-", "_")

    @property
    def class_name(self) -> str:
        """Name of the plugin's class: ``TapExample``."""
        return "".join(word.capitalize() for word in self.name.split("-"))

    @property
    def source(self) -> str:
        """Name of what is read or written, as a class begins with it: ``Example``."""
        return self.class_name.removeprefix(self.what.capitalize())


def _among(choice: str, given: str | None, possible: tuple[str, ...]) -> str:
    if given is not None and given not in possible:
        raise ProjectError(f"--{choice} {given} is not possible here; {', '.join(possible)} is.")
    return given or possible[0]
