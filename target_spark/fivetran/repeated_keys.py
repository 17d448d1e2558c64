"""Detection of repeated primary keys in the batch files of a Fivetran request, without Spark.

Fivetran sends each key once per batch, and merging unique keys is much faster than deduplicating
all rows. Therefore the keys are read first and compared with each other. If they need too much
memory, or have a type that Arrow and Spark compare differently, a repeated key is assumed.

Source: Fivetran's Partner SDK development guide, "WriteBatchRequest".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from tap_core.protocols.fivetran.enums import DataType
from target_spark.fivetran.cell_conversion import CellConversionError, convert_column
from target_spark.fivetran.existing_table import ExistingTable
from target_spark.fivetran.table_schema import FivetranSchema
from target_spark.fivetran.type_mapping import to_ddl

__all__ = ["KeyCollector"]

_MAX_KEY_BYTES: Final = 64 << 20
"""Maximum size in bytes of the keys that are kept in memory for comparison."""

_INEXACT_TYPES: Final = (DataType.FLOAT, DataType.DOUBLE)
"""Types whose values Arrow and Spark may compare differently. For keys of these types, a repeated
key is assumed."""


class KeyCollector:
    """Collector of a batch's primary keys that detects repeated ones, in at most 64 MiB of memory.

    If the keys need more memory or cannot be compared exactly, `may_repeat` returns True.

    Args:
        fivetran_schema: The columns of the batch.
        existing: The table. If a key has another type in the table, a repeated key is assumed, as
            different values may become equal in that type, such as the texts ``1`` and ``01``.
    """

    def __init__(self, fivetran_schema: FivetranSchema, existing: ExistingTable) -> None:
        self._columns = fivetran_schema.keys
        self._names = [str(number) for number in range(len(self._columns))]
        self._batches: list[Any] = []
        self._bytes = 0
        self._is_unsure = any(
            column.type in _INEXACT_TYPES
            or to_ddl(column, existing.format) != existing.types[column.column].lower()
            for column in self._columns
        )

    def add(self, cells: Sequence[Any]) -> None:
        """Collect the primary keys of further rows of the batch, to find out if one repeats.

        ``cells`` has an Arrow array of texts for each key column.
        """
        if self._is_unsure:
            return
        try:
            values = [convert_column(*pair) for pair in zip(self._columns, cells, strict=True)]
        except CellConversionError:
            values = []
        self._bytes += sum(array.nbytes for array in values)
        self._is_unsure = not values or self._bytes > _MAX_KEY_BYTES
        if self._is_unsure:
            self._batches.clear()
        else:
            self._batches.append(pa.record_batch(values, names=self._names))

    def may_repeat(self) -> bool:
        """Return True if an added key may occur more than once; False if all keys are unique."""
        if self._is_unsure or not self._batches:
            return self._is_unsure
        keys = pa.Table.from_batches(self._batches)
        different = keys.group_by(self._names, use_threads=False).aggregate([])
        return bool(different.num_rows < keys.num_rows)
