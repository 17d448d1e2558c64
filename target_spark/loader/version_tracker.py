"""Table versions of one stream's rows, and the decision to delete rows of other versions.

Versions are only compared for equality; None is the version of rows without a version. Rows of
other versions are deleted when the stream is known to be complete: after an ACTIVATE_VERSION
message that follows rows of its version, or at the end of a complete input. Rows of this run must
not be deleted. So nothing is deleted if rows with another version came after the ACTIVATE_VERSION
message, or if rows were received, but no row with the activated version.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["VersionTracker"]


@dataclass
class VersionTracker:
    """Singer table versions of one stream that this run received, in rows or in ACTIVATE_VERSION.

    Attributes:
        activated: The version of the last ACTIVATE_VERSION message, or None.
        closed: True if the last ACTIVATE_VERSION message came after rows of its version, and
            no row came after the message. The version is then complete.
        is_deletion_queued: True once the deletion of all other versions is queued.
    """

    activated: int | None = None
    closed: bool = False
    is_deletion_queued: bool = False
    _seen: set[int | None] = field(default_factory=set)
    _later: set[int | None] = field(default_factory=set)
    """Other versions whose rows came after the last ACTIVATE_VERSION message."""

    @property
    def is_versioned(self) -> bool:
        """True if this run received a row with a version, or an ACTIVATE_VERSION message."""
        return self.activated is not None or bool(self._seen - {None})

    @property
    def has_pending_deletion(self) -> bool:
        """True if ACTIVATE_VERSION was received, but rows of other versions are not deleted yet."""
        return self.activated is not None and not self.is_deletion_queued

    @property
    def may_delete_current_rows(self) -> bool:
        """True if deleting all versions but the activated one might delete rows of this run.

        Rows of this run are at risk if rows of another version came after the ACTIVATE_VERSION
        message, or if all rows have other versions than the activated one.
        """
        return bool(self._later or (self._seen and self.activated not in self._seen))

    def record_rows(self, version: int | None) -> None:
        """Record rows of a Singer table version; None means rows without a version."""
        self.closed = False
        self._seen.add(version)
        if self.activated not in {None, version}:
            self._later.add(version)

    def activate(self, version: int) -> None:
        """Record an ACTIVATE_VERSION message, which makes ``version`` the current table version."""
        if version != self.activated:
            self.activated, self.is_deletion_queued, self._later = version, False, set()
        self.closed = version in self._seen

    def is_old(self, version: int | None) -> bool:
        """Return True if the rows of a version are left out when the stream overwrites its table.

        This is the case if the last ACTIVATE_VERSION message named another version, this run
        received rows of that version, and no row of ``version`` came after the message. Rows
        without a version are never old.
        """
        if self.activated not in self._seen:
            return False
        return version not in {None, self.activated, *self._later}

    def may_delete_versions(self, *, final: bool) -> bool:
        """Return True if the rows of all versions other than the activated one may be deleted now.

        ``final`` is True if the stream is known to be complete. If it is False, the stream counts
        as complete only if ACTIVATE_VERSION came after rows of its version.
        """
        return (
            self.has_pending_deletion
            and (final or self.closed)
            and not self.may_delete_current_rows
        )
