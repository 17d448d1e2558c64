"""What the input says of the versions of one stream's rows, and when others may go.

Rules of the room: pure. Versions are told apart, never compared by size; rows without one
are of a version too. Rows of other versions go when the stream is known to be complete:
by an announcement that comes after rows of its version, or at a final end of the input.
What came after the announcement is never taken for old: where that is of another version,
or where rows came and none is of the announced version, nothing goes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["VersionTracker"]


@dataclass
class VersionTracker:
    """The versions of one stream within a run.

    ``activated`` is the version that was announced last. It is ``closed`` while nothing
    has come after its rows and its announcement, and ``retired`` once it is decided that
    the rows of all others go.
    """

    activated: int | None = None
    closed: bool = False
    retired: bool = False
    _seen: set[int | None] = field(default_factory=set)
    _mixed: bool = False

    @property
    def told(self) -> bool:
        """Whether rows or an announcement have named a version."""
        return self.activated is not None or bool(self._seen - {None})

    @property
    def owed(self) -> bool:
        """Whether a version is announced and rows of others may still be there."""
        return self.activated is not None and not self.retired

    @property
    def doubtful(self) -> bool:
        """Whether rows of this run would go that may be as new as those that stay."""
        return self._mixed or bool(self._seen and not self.has(self.activated))

    def rows(self, version: int | None) -> None:
        """Note that rows of a version came."""
        self.closed = False
        if version != self.activated:
            self._mixed = self._mixed or self.activated is not None
        self._seen.add(version)

    def activate(self, version: int) -> None:
        """Note that a version is announced."""
        if version != self.activated:
            self.activated, self.retired, self._mixed = version, False, False
        self.closed = version in self._seen

    def has(self, version: int | None) -> bool:
        """Tell whether rows of a version came."""
        return version in self._seen

    def may_retire(self, *, final: bool) -> bool:
        """Tell whether the rows of other versions may go now."""
        return self.owed and (final or self.closed) and not self.doubtful
