"""Table versions of one stream's rows, and the decision to delete rows of other versions.

Versions are compared for equality only, never by size; rows without a version (None) form a version
too. Rows of other versions are deleted when the stream is known to be complete: by an
ACTIVATE_VERSION after rows of its version, or at a final end of the input. Rows that came after the
announcement are never treated as old: if they have another version, or if no row of the announced
version came, nothing is deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["VersionTracker"]


@dataclass
class VersionTracker:
    """The versions of one stream within a run.

    ``activated`` is the version announced last. ``closed`` is True while nothing has followed its
    rows and its announcement; ``retired`` is True once the deletion of all other versions is
    decided.
    """

    activated: int | None = None
    closed: bool = False
    retired: bool = False
    _seen: set[int | None] = field(default_factory=set)
    _mixed: bool = False

    @property
    def told(self) -> bool:
        """True if rows or an announcement have named a version."""
        return self.activated is not None or bool(self._seen - {None})

    @property
    def owed(self) -> bool:
        """True if a version is announced and rows of other versions may still exist."""
        return self.activated is not None and not self.retired

    @property
    def doubtful(self) -> bool:
        """True if a deletion could remove rows of this run that are as new as the kept ones."""
        return self._mixed or bool(self._seen and not self.has(self.activated))

    def rows(self, version: int | None) -> None:
        """Record that rows of a version came."""
        self.closed = False
        if version != self.activated:
            self._mixed = self._mixed or self.activated is not None
        self._seen.add(version)

    def activate(self, version: int) -> None:
        """Record that a version is announced."""
        if version != self.activated:
            self.activated, self.retired, self._mixed = version, False, False
        self.closed = version in self._seen

    def has(self, version: int | None) -> bool:
        """Return True if rows of a version came."""
        return version in self._seen

    def may_retire(self, *, final: bool) -> bool:
        """Return True if the rows of other versions may be deleted now."""
        return self.owed and (final or self.closed) and not self.doubtful
