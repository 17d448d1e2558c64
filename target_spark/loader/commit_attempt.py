"""The stages of one commit: prepared, written, verified.

A `CommitAttempt` stores the progress of its request over all retries. A retry therefore uses the
same commit number and state. Bad rows are not quarantined again, nor counted again against the
user's limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from target_spark.columns.ddl_parser import parse_ddl
from target_spark.columns.table_schema import TableSchema
from target_spark.columns.types import Array, ColumnType, Struct
from target_spark.errors import ConflictError, RowCountError
from target_spark.frames import Counts
from target_spark.loader.commit_request import CommitRequest
from target_spark.loader.pending_states import CoveredState
from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.tables.quarantine_summary import Reason
from target_spark.tables.table import CommitStats, Table

__all__ = [
    "BadRows",
    "CommitAttempt",
    "Prepared",
    "Verified",
    "Written",
    "check_column_types",
    "check_received_count",
]


@dataclass(frozen=True, slots=True)
class BadRows:
    """Number of rows in a commit request that do not fit their columns, and the reasons.

    The rows are already counted against the user's limit on quarantined rows.

    Attributes:
        count: The number of rows.
        reasons: The reasons why the rows do not fit.
        are_quarantined: True once the rows are committed to the quarantine table.
    """

    count: int
    reasons: tuple[Reason, ...]
    are_quarantined: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """First of three stages of a commit: its metadata is fixed, and it may already be in the table.

    Attributes:
        marker: The metadata that the commit writes into the table.
        covered: The state that the commit stores, or None.
        strict: True if the Spark job fails at a row that does not fit its columns, and commits
            nothing. False if such rows were removed before.
    """

    marker: CommitMetadata
    covered: CoveredState | None
    strict: bool


@dataclass(frozen=True, slots=True)
class Written:
    """Second of three stages of a commit: the table contains it, but its counts are not checked.

    Attributes:
        commit: The prepared commit.
        stats: Numbers of changed rows and added files, as the table format reports them.
    """

    commit: Prepared
    stats: CommitStats

    def verify(
        self, request: CommitRequest, counts: Counts, bad: BadRows | None = None
    ) -> Verified:
        """Check that the rows written and quarantined add up to the rows received.

        Args:
            request: The commit request, which has the number of received rows.
            counts: The counts of the rows written.
            bad: The quarantined rows, or None if all rows fit.

        Returns:
            The verified commit.

        Raises:
            RowCountError: The numbers differ.
        """
        check_received_count(request, counts.rows, bad.count if bad else 0)
        return Verified(counts, bad, self)


@dataclass(frozen=True, slots=True)
class Verified:
    """Last of three stages of a commit: the rows written and quarantined are all rows received.

    Attributes:
        counts: Counts of the written rows, such as the number of rows in which a value became null.
        bad: The quarantined rows, or None.
        written: The commit. None if no commit was made, because too many rows of an overwrite were
            quarantined or there was nothing to delete.
        withheld: The reason why states after these rows must be held back, or None if they
            may be emitted.
    """

    counts: Counts
    bad: BadRows | None
    written: Written | None
    withheld: str | None = None

    @property
    def rows(self) -> int:
        """Number of rows that the commit wrote to the table."""
        return 0 if self.written is None else self.counts.rows


@dataclass(slots=True)
class CommitAttempt:
    """Work already done for one commit request, so that a retry continues from it.

    Attributes:
        request: The rows to commit.
        bad: The rows that do not fit; None until they are known.
        prepared: The prepared commit. None before the first try, and after a try that is known to
            have committed nothing.
        keeps_rows: True if an overwrite keeps the rows of the table, because an earlier attempt of
            the Airbyte sync has loaded them. None until it is known.
    """

    request: CommitRequest
    bad: BadRows | None = None
    prepared: Prepared | None = None
    keeps_rows: bool | None = None


def check_column_types(table: Table, types: Mapping[str, str], table_schema: TableSchema) -> None:
    """Check that a table's columns still have the types to which the rows were converted.

    If another writer has given a column a narrower type, Spark would round or truncate the values.
    Columns and struct fields that the table lacks are not checked: if another writer has dropped
    them, Spark reports an error, and a commit to a Parquet table may add them.

    Args:
        table: The table that the commit will change.
        types: The present type (DDL) of each column of the table.
        table_schema: The columns of the rows.

    Raises:
        ConflictError: A column has another type.
    """
    changed = [
        name
        for name, ddl in table_schema.types.items()
        if types.get(name, ddl) != ddl and not _fits(parse_ddl(types[name]), parse_ddl(ddl))
    ]
    if changed:
        raise ConflictError(
            f"Another writer has changed the type of column {', '.join(changed)} of table"
            f" {table.name} while rows were written to it."
        )


def _fits(present: ColumnType, converted: ColumnType) -> bool:
    """Return True if a column of type ``present`` stores values of type ``converted`` unchanged.

    The types must be equal, but ``converted`` may have more struct fields.
    """
    match (present, converted):
        case (Struct(), Struct()):
            types = {field.name: field.type for field in converted.fields}
            return all(
                field.name in types and _fits(field.type, types[field.name])
                for field in present.fields
            )
        case (Array(), Array()):
            return _fits(present.element, converted.element)
    return present == converted


def check_received_count(request: CommitRequest, written: int, quarantined: int) -> None:
    """Check that the rows to be written and quarantined add up to the rows received.

    Args:
        request: The commit request, which has the number of received rows.
        written: The number of rows to be written.
        quarantined: The number of rows to be quarantined.

    Raises:
        RowCountError: The numbers differ.
    """
    if written + quarantined != request.count:
        raise RowCountError(
            f"Stream {request.stream}: {request.count} rows were spooled, but {written} would be"
            f" written and {quarantined} quarantined. No state that covers them is emitted."
        )
