"""What happens to a table when its stream is complete, and what when that is not known.

Rules of the room: an overwrite is swapped in, and rows of other versions end, only when
the stream is known to be complete: by the end of the input, or by its source's own word.
Until then the states that may speak of it wait: behind the first SCHEMA of an overwritten
stream, behind the announcement of a version. Where states are of single streams, an
overwritten one holds back its own and those behind its rows. A table that has no rows of
other versions is owed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from target_spark.errors import IncompleteError, QuarantineError, TargetSparkError
from target_spark.loader.commit_dispatch import CommitDispatcher
from target_spark.loader.state_release import StateReleaser
from target_spark.loader.stream_context import LoadedStream

__all__ = ["TableFinalizer"]

_VERSIONS_STAY: Final = (
    "ACTIVATE_VERSION removes nothing: this table format cannot. The rows of all versions stay,"
    " told apart by _sdc_table_version. Set format to delta, or write_mode to overwrite"
)
_GENERATIONS_STAY: Final = (
    "rows of older generations stay: this table format cannot remove rows. Set format to delta,"
    " or let the connection overwrite the stream"
)
_VERSIONS_MIXED: Final = (
    "ACTIVATE_VERSION removes nothing: rows of this run are not of the version that it names"
)

_SIGNS_OF_STATES: Final = (
    "(a STATE at the very end without progress markers, or an ACTIVATE_VERSION after the rows)."
    " For taps that send no STATE, set overwrite_on_eof to always."
)
_SIGNS_OF_STATUS: Final = (
    "(a STREAM_STATUS of COMPLETE; or, from a source that sends none at all, an end without an"
    " ERROR and without a torn line). Mend the source and sync again."
)


class TableFinalizer:
    """Lets the tables of complete streams be what their streams want.

    ``begin`` starts Spark, ``cut`` closes a stream's open batch. ``can_retire`` is False
    where the table format cannot remove rows. With ``by_status`` a stream is complete by
    the word of its source alone.
    """

    def __init__(
        self,
        dispatch: CommitDispatcher,
        releases: StateReleaser,
        begin: Callable[[], None],
        cut: Callable[[LoadedStream], None],
        *,
        can_retire: bool,
        by_status: bool = False,
    ) -> None:
        self._dispatch = dispatch
        self._releases = releases
        self._begin = begin
        self._cut = cut
        self._can_retire = can_retire
        self._by_status = by_status
        self._kept: list[str] = []
        self._owing: list[LoadedStream] = []

    def awaited(self, stream: LoadedStream, ordinal: int) -> None:
        """Hold the states from here on for what a stream's completion will do."""
        if stream.overwrites:
            if not self._by_status:
                self._releases.opened(stream.id, ordinal)
        elif stream.versions.owed and self._can_retire:
            self._releases.opened(stream.removal, ordinal)
        elif stream.versions.owed:
            text = _GENERATIONS_STAY if self._by_status else _VERSIONS_STAY
            self._dispatch.note(stream.id, text)

    def stated(self, streams: Iterable[LoadedStream], ordinal: int) -> None:
        """Hold a state of these streams for what the completion of each will do."""
        for stream in streams if self._by_status else ():
            if stream.overwrites:
                self._releases.opened(stream.id, ordinal)

    def announced(self, stream: LoadedStream, ordinal: int) -> None:
        """Take the announcement of a version: it may be the sign that the stream is complete."""
        if stream.overwrites or not stream.versions.owed:
            return
        self.awaited(stream, ordinal)
        if self._can_retire and stream.versions.may_retire(final=stream.complete):
            self._retire(stream, ordinal)

    def end(self, streams: Iterable[LoadedStream], ordinal: int, *, final: bool) -> None:
        """Let everything go in that may; ``final`` says that the input came to its end."""
        for stream in streams:
            complete = final or stream.complete
            if stream.overwrites:
                self._swap(stream, ordinal, final=complete)
            elif stream.versions.owed and self._can_retire:
                self._settle(stream, ordinal, final=complete)

    def fault(self, streams: Iterable[LoadedStream]) -> TargetSparkError | None:
        """Return which streams are not complete, after the last commit."""
        withheld = self._releases.withheld()
        unfit = [
            self._dispatch.describe_incomplete(stream.id)
            for stream in streams
            if stream.id in withheld or stream.removal in withheld
        ]
        incomplete = self._incomplete()
        if not unfit:
            return incomplete
        return QuarantineError(" ".join([*unfit, *map(str, filter(None, [incomplete]))]))

    def _incomplete(self) -> IncompleteError | None:
        """Return which tables are not as their streams want them."""
        faults = []
        if self._kept:
            kept = ", ".join(self._kept)
            faults.append(f"The tables of {kept} were not overwritten and stay as they were")
        owing = ", ".join(str(stream.id) for stream in self._owing if self._has_others(stream))
        if owing:
            faults.append(f"The tables of {owing} have the rows of other versions still")
        if not faults:
            return None
        signs = _SIGNS_OF_STATUS if self._by_status else _SIGNS_OF_STATES
        return IncompleteError(
            f"{'. '.join(faults)}: the input ended without a sign that these streams are complete"
            f" {signs}"
        )

    def _swap(self, stream: LoadedStream, ordinal: int, *, final: bool) -> None:
        if final or stream.versions.closed:
            self._begin()
            self._releases.opened(stream.id, ordinal)
            self._releases.cut(stream.id)
            self._dispatch.submit(stream, stream.valid_batches(), ordinal)
        else:
            self._dispatch.note(stream.id, "not overwritten: the stream may be incomplete")
            self._kept.append(str(stream.id))

    def _settle(self, stream: LoadedStream, ordinal: int, *, final: bool) -> None:
        if stream.versions.may_retire(final=final):
            self._retire(stream, ordinal)
        elif stream.versions.doubtful:
            self._dispatch.note(stream.id, _VERSIONS_MIXED)
            self._releases.waived(stream.removal)
        else:
            self._owing.append(stream)

    def _retire(self, stream: LoadedStream, ordinal: int) -> None:
        """Let the rows of other versions end once those of the announced one are committed."""
        self._begin()
        if stream.spool.count:
            self._cut(stream)
        if not stream.hard_delete:
            stream.mark_deletions()
        stream.versions.retired = True
        self._releases.cut(stream.removal)
        self._dispatch.submit(stream, (), ordinal, retires=stream.versions.activated)

    def _has_others(self, stream: LoadedStream) -> bool:
        """Tell whether a table has rows of other versions; if not, nothing waits for it."""
        self._begin()
        version = stream.versions.activated
        if version is not None and self._dispatch.commits.has_others(stream.table, version):
            text = "rows of other versions stay: the stream may be incomplete"
            self._dispatch.note(stream.id, text)
            return True
        self._releases.waived(stream.removal)
        return False
