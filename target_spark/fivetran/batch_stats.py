"""Row counts of batch files, and a flag for repeated primary keys, without Spark.

Conversion errors are reported later, when the rows are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from target_spark.fivetran.batch_request import FileKind, FileParams, RequestFile
from target_spark.fivetran.existing_table import ExistingTable
from target_spark.fivetran.file_reader import READING_LOCK
from target_spark.fivetran.repeated_keys import KeyCollector
from target_spark.fivetran.row_reader import convert_file_faults, read_cells
from target_spark.fivetran.table_schema import FivetranSchema

__all__ = ["BatchStats", "count_rows"]


@dataclass(frozen=True, slots=True)
class BatchStats:
    """Row counts of the batch files in a Fivetran request, and a flag for repeated primary keys.

    Attributes:
        rows: The number of rows by kind of file. Kinds without rows are left out.
        repeats: True if a primary key may occur twice in the files whose keys `count_rows` has
            compared; False if each key certainly occurs only once.
    """

    rows: Mapping[FileKind, int]
    repeats: bool

    @property
    def total(self) -> int:
        """Number of rows in all batch files of the request."""
        return sum(self.rows.values())

    @property
    def kinds(self) -> frozenset[FileKind]:
        """Kinds of the batch files that have at least one row."""
        return frozenset(self.rows)


def count_rows(
    files: Sequence[RequestFile],
    params: FileParams,
    fivetran_schema: FivetranSchema,
    existing: ExistingTable,
    compared: Collection[FileKind] = frozenset(FileKind),
) -> BatchStats:
    """Count the rows of Fivetran's batch files, and detect repeated primary keys.

    Args:
        files: The files.
        params: The format of the files.
        fivetran_schema: The columns of the batch.
        existing: The table, whose key types decide if the keys can be compared exactly.
        compared: The kinds of files whose keys are compared. Rows of other kinds are only counted.

    Raises:
        BatchFileLoadError: A file cannot be parsed.
    """
    rows: Counter[FileKind] = Counter()
    keys = KeyCollector(fivetran_schema, existing)
    with READING_LOCK:
        for file in files:
            key_columns = fivetran_schema.keys if file.kind in compared else ()
            with convert_file_faults(file):
                for cells, _ in read_cells(file, params, fivetran_schema):
                    rows[file.kind] += len(next(iter(cells.values())))
                    if key_columns:
                        keys.add([cells[key.name] for key in key_columns])
        repeats = keys.may_repeat()
    return BatchStats(rows, repeats)
