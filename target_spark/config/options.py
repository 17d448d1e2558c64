"""What a user asked of the loader, as checked values.

Rules of the room: pure. How a stream is written, and into which table, is decided here
alone. What is said of one stream wins over what is said of all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from fractions import Fraction
from math import ceil
from typing import Any, Final

from tap_core.batch.limits import LINE_SETTING, FileLimits
from tap_core.events import StreamId
from target_spark.columns import ColumnOptions
from target_spark.errors import UnsupportedError
from target_spark.tables.identifiers import catalog_identifier, table_name
from target_spark.tables.model import MaintenanceOptions, PartitionField, Table

__all__ = [
    "APPENDING_FORMATS",
    "LoadOptions",
    "QuarantineLimit",
    "RunInfo",
    "StreamOptions",
    "WriteMode",
    "split_identifier",
    "uses_paths",
]

APPENDING_FORMATS: Final = frozenset({"parquet"})
"""Formats in which a row that was written cannot be replaced."""


_SHARE: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%")
_ROWS: Final = re.compile(r"[0-9]{1,18}")
_FEWEST_JUDGED: Final = 1_000
_ALLOWED_WHEN_JUDGED: Final = 10


class WriteMode(Enum):
    """What the rows of a run do to those that are in the table."""

    APPEND = "append"
    UPSERT = "upsert"
    OVERWRITE = "overwrite"
    SCD2 = "scd2"


@dataclass(frozen=True, slots=True)
class QuarantineLimit:
    """How many rows may be set aside: ``rows`` of a run, or a ``share`` of each stream's rows."""

    rows: int | None = None
    share: Fraction | None = None

    @classmethod
    def parse(cls, setting: int | str | None) -> QuarantineLimit:
        """Read the setting ``max_quarantined``.

        Raises:
            ValueError: it is neither a number of rows nor a share of at most 100 %.
        """
        if setting is None:
            return cls()
        text = setting.strip() if isinstance(setting, str) else f"{setting:.0f}"
        if _ROWS.fullmatch(text):
            return cls(rows=int(text))
        found = _SHARE.fullmatch(text)
        share = Fraction(found[1]) / 100 if found else None
        if share is None or share > 1:
            raise ValueError(
                f"{text!r} is neither a number of rows (100) nor a share of the rows of each"
                " stream from 0% to 100% ('1%', '0.5%')"
            )
        return cls(share=share) if share else cls(rows=0)

    @property
    def judged_from(self) -> int:
        """The number of a stream's rows from which on its share ends a run before its end."""
        return max(_FEWEST_JUDGED, ceil(_ALLOWED_WHEN_JUDGED / (self.share or 1)))

    def is_exceeded(self, aside: int, rows: int) -> bool:
        """Tell whether more of a stream's rows are set aside than the share allows."""
        return self.share is not None and aside > self.share * rows

    def __str__(self) -> str:
        """Return it as it is set."""
        return str(self.rows) if self.share is None else f"{float(self.share * 100):g}%"


@dataclass(frozen=True, slots=True)
class RunInfo:
    """One run of a job: ``id`` is new each time, ``started`` in milliseconds since 1970.

    A ``replays`` run loads rows of a quarantine again. ``former`` are names that earlier releases
    gave the job: tables and leases under them are its own.
    """

    job: str
    id: str
    started: int
    replays: bool = False
    former: tuple[str, ...] = ()

    @property
    def jobs(self) -> tuple[str, ...]:
        """The name of the job, then its former ones."""
        return (self.job, *self.former)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What is asked of one stream, or of all; None and empty say nothing.

    ``table``, ``catalog`` and ``database`` say where its rows go; the properties in
    ``partition_by``, ``cluster_by`` and ``sort_by`` how its files are laid out, and
    ``file_bytes`` how large they should be. With ``hard_delete`` rows are removed
    instead of marked.

    ``by_cursor``: of rows with one key the one with the greatest cursor stays, whenever it
    came; of equal ones the last. Rows of versions below ``least_version`` count for older
    than any other. ``sync_id`` stands in the meta of Airbyte's rows.
    """

    write_mode: WriteMode | None = None
    table: str | None = None
    catalog: str | None = None
    database: str | None = None
    partition_by: tuple[PartitionField, ...] = ()
    cluster_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    file_bytes: int | None = None
    hard_delete: bool | None = None
    by_cursor: bool | None = None
    least_version: int | None = None
    sync_id: int | None = None

    def over(self, general: StreamOptions) -> StreamOptions:
        """Return these options, with the general ones where these say nothing."""
        chosen: dict[str, Any] = {}
        for option in fields(self):
            own = getattr(self, option.name)
            chosen[option.name] = getattr(general, option.name) if own in {None, ()} else own
        return StreamOptions(**chosen)


_FILE_LIMITS: Final = FileLimits.from_config({LINE_SETTING: 16 << 20})
"""Spark's JVM takes 600 MB more for a line of 20 MiB, and ends without memory at 60 MiB."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The settings of one load.

    ``every`` holds for each stream of which ``streams`` says nothing else; what a protocol's
    own catalog asks for a stream stands in ``configured``, and wins. With ``by_status`` a
    stream is complete when its source says so of it, and by no other sign. Streams in
    ``full_refresh`` are overwritten in this run, whatever their mode is otherwise.
    ``writers`` commits run side by side. In a ``dry_run`` nothing is written; ``care`` is
    what tables get after the last commit. With ``delete_files`` those of BATCH messages
    are removed once their rows are committed; ``batch_limits`` bound what is read of them.
    With ``namespaces_as_databases`` a namespace
    is a database of the catalog, where a catalog is named and no database. Rows wait for
    their commits at ``staging``, a folder or an address. In a ``strict`` load each record is
    held against its description before it gets here.

    A batch is closed by whichever of ``flush_rows``, ``flush_bytes`` and
    ``flush_seconds`` comes first; ``spool_bytes`` bounds what waits on disk, over all
    streams, before the input is made to wait. ``max_quarantined`` bounds what is set aside.
    """

    path: str
    format: str = "delta"
    every: StreamOptions = StreamOptions()
    streams: Mapping[str, StreamOptions] = field(default_factory=dict)
    full_refresh: frozenset[str] = frozenset()
    table_prefix: str = ""
    flush_rows: int = 1_000_000
    flush_bytes: int = 256 << 20
    flush_seconds: float = 300.0
    spool_bytes: int = 1 << 30
    max_quarantined: QuarantineLimit = QuarantineLimit()
    always_overwrite: bool = False
    columns: ColumnOptions = field(default_factory=ColumnOptions)
    writers: int = 4
    dry_run: bool = False
    care: MaintenanceOptions = field(default_factory=MaintenanceOptions)
    delete_files: bool = False
    batch_limits: FileLimits = _FILE_LIMITS
    configured: Mapping[StreamId, StreamOptions] = field(default_factory=dict)
    by_status: bool = False
    namespaces_as_databases: bool = False
    staging: str | None = None
    strict: bool = False

    @property
    def can_upsert(self) -> bool:
        """Whether the table format can replace rows by key."""
        return self.format not in APPENDING_FORMATS

    def of(self, stream: StreamId) -> StreamOptions:
        """Return what is asked of a stream."""
        return self._own(stream).over(self.every)

    def _own(self, stream: StreamId) -> StreamOptions:
        """Return what is asked of this very stream."""
        own = self.streams.get(str(stream), StreamOptions())
        return self.configured[stream].over(own) if stream in self.configured else own

    def unknown(self, streams: Iterable[str]) -> list[str]:
        """Return the names in ``streams`` and ``full_refresh`` that are none of these."""
        return sorted({*self.streams, *self.full_refresh} - set(streams))

    def table(self, stream: StreamId) -> Table:
        """Return where a stream's rows go: a folder below the path, or a name in a catalog.

        A table of a catalog has its files below the path too, where there is one; else
        the catalog says where they are. Of Iceberg's tables, those without a catalog are
        folders also where a database is named, which then is a folder above them.
        """
        asked = self.of(stream)
        if self.namespaces_as_databases and asked.catalog and not asked.database:
            return self._in_own_database(stream, asked.catalog)
        levels = split_identifier(asked.catalog, asked.database)
        if uses_paths(self.format, asked.catalog):
            name = asked.table or f"{self.table_prefix}{table_name(stream)}"
            return Table("/".join((self.path.rstrip("/"), *levels, name)), name)
        named = catalog_identifier if levels else table_name
        name = asked.table or f"{self.table_prefix}{named(stream)}"
        path = self.path and f"{self.path.rstrip('/')}/{name}"
        return Table(path, name, (*levels, name) if levels else ())

    def _in_own_database(self, stream: StreamId, catalog: str) -> Table:
        database = catalog_identifier(StreamId(stream.namespace or "default"))
        name = f"{self.table_prefix}{catalog_identifier(StreamId(stream.name))}"
        path = self.path and "/".join((self.path.rstrip("/"), database, name))
        return Table(path, name, (catalog, database, name))

    def mode(self, stream: StreamId, *, keyed: bool) -> WriteMode:
        """Return how a stream is written.

        Without a word of the user: upserted where it has keys and the format can,
        else appended. A stream without keys is appended also where upsert is asked of
        all streams.

        Raises:
            UnsupportedError: upsert or scd2 is asked of this very stream, and it has no keys.
        """
        if str(stream) in self.full_refresh:
            return WriteMode.OVERWRITE
        own = self._own(stream).write_mode
        wanted = own or self.every.write_mode or WriteMode.UPSERT
        if wanted in {WriteMode.APPEND, WriteMode.OVERWRITE}:
            return wanted
        if own is not None and not keyed:
            raise UnsupportedError(
                f"Stream {stream} cannot be written by {own.value}: it has no key properties."
                " Take its write_mode out of the setting streams, or set it to append."
            )
        return wanted if keyed and self.can_upsert else WriteMode.APPEND


def uses_paths(table_format: str, catalog: str | None) -> bool:
    """Tell whether tables are folders below the path, whatever their database is called."""
    return table_format == "iceberg" and not catalog


def split_identifier(catalog: str | None, database: str | None) -> tuple[str, ...]:
    """Return what stands before a table's name in a catalog; nothing for a folder.

    Dots in a database are the levels of a catalog that has several.
    """
    if not catalog and not database:
        return ()
    return (*filter(None, [catalog]), *(database or "default").split("."))
