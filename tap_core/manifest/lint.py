"""Everything that is wrong with a manifest, all at once.

Rules of the room: what running it would refuse is found by the same code, which collects here
instead of raising. Without a configuration, what depends on one is checked as far as it goes.
One fault that several components share by reference is told once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tap_core.manifest.build import Builder
from tap_core.manifest.components.source import DeclarativeSource
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.faults import Fault
from tap_core.manifest.load import Manifest, read_manifest
from tap_core.manifest.tree import Node

__all__ = ["Problem", "problems"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong with a manifest."""

    line: int
    """Counted from 1; 0 where it is the whole file."""
    path: str
    """The keys that lead there, such as ``streams[0].retriever``."""
    severity: Literal["error", "warning"]
    message: str
    file: str = "manifest"

    @property
    def is_error(self) -> bool:
        """Whether the manifest, or a part of it, cannot run."""
        return self.severity == "error"

    def __str__(self) -> str:
        """Return one line, as compilers write them."""
        path = f"{self.path}: " if self.path else ""
        return f"{self.file}:{self.line}: {self.severity}: {path}{self.message}"


def problems(source: Path | str) -> list[Problem]:
    """Return all problems of a manifest, in the order of its lines.

    ``source`` is a file, or the text of a manifest.
    """
    name = str(source) if isinstance(source, Path) else "manifest"
    try:
        manifest = read_manifest(source)
        found = list(_faults(manifest))
    except ManifestError as error:
        found = [Fault(error.line, error.path, error.message)]
    seen: dict[tuple[int, str], Problem] = {}
    for fault in found:
        severity: Literal["error", "warning"] = "error" if fault.is_error else "warning"
        problem = Problem(fault.line, fault.path, severity, fault.message, name)
        seen.setdefault((fault.line, fault.message), problem)
    return sorted(seen.values(), key=lambda problem: problem.line)


def _faults(manifest: Manifest) -> Iterator[Fault]:
    found: list[Fault] = []
    checked = replace(manifest, faults=found)
    Builder(checked, None, found).made(checked.tree, DeclarativeSource)
    told = list(_of_streams(checked))
    yield from [*found, *told]
    for line, key in manifest.twice:
        message = f"the key '{key}' stands twice: the last one counts."
        yield Fault(line, key, message, is_error=False)


def _of_streams(manifest: Manifest) -> Iterator[Fault]:
    """Compare what streams are called with each other, and with what the check names."""
    names = Counter(str(one.get("name") or "") for one in manifest.streams)
    for one in manifest.streams:
        name = str(one.get("name") or "")
        if names[name] > 1:
            yield Fault(one.line, one.path, f"{names[name]} streams are called '{name}'.")
    if names:
        yield from _of_check(manifest.tree.get("check"), set(names))


def _of_check(check: Any, names: set[str]) -> Iterator[Fault]:
    if not isinstance(check, Node):
        message = "there is no check: a connection is tried with every stream."
        yield Fault(1, "check", message, is_error=False)
        return
    given = check.get("stream_names")
    for name in given if isinstance(given, list) else []:
        if isinstance(name, str) and name not in names:
            line = check.lines.get("stream_names", check.line)
            yield Fault(line, "check.stream_names", f"there is no stream '{name}'.")
