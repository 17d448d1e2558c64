"""Parser of lock files: each requirement with its version, marker and hashes.

pip and uv install every lock file with ``--require-hashes``. Source: the format of pip's
requirements files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

__all__ = ["LOCKS", "ROOT", "LockedPackage", "read_lock"]

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted(
    str(path.relative_to(ROOT))
    for path in (
        *ROOT.glob("requirements*.lock"),
        *(ROOT / "samples").glob("*/*/requirements.lock"),
        ROOT / "samples" / "requirements.txt",
    )
)


@dataclass(frozen=True)
class LockedPackage:
    """One line of a lock file: a package at one version."""

    name: str
    version: Version
    requirement: Requirement
    hashes: tuple[str, ...]

    def is_for_this_interpreter(self) -> bool:
        """Return True if the package would be installed for this interpreter."""
        marker = self.requirement.marker
        return marker is None or marker.evaluate()


def read_lock(name: str) -> list[LockedPackage]:
    """Return the packages of a lock file.

    Raises:
        AssertionError: a line does not pin one version.
    """
    text = (ROOT / name).read_text("utf-8").replace("\\\n", " ")
    return [_read_line(line) for line in text.splitlines() if line and not line.startswith("#")]


def _read_line(line: str) -> LockedPackage:
    requirement = Requirement(re.sub(r"\s--hash=\S+", "", line).strip())
    [specifier] = requirement.specifier
    assert specifier.operator == "==", line
    hashes = tuple(re.findall(r"--hash=(\S+)", line))
    name = canonicalize_name(requirement.name)
    return LockedPackage(name, Version(specifier.version), requirement, hashes)
