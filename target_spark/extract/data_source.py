"""Python data source of Spark for the streams of a tap: `spark.read.format("tap")`.

Imports other than `pyspark` are lazy, because Spark imports this module whenever any Python data
source is used.

Source: Spark's guide "Python Data Source API".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from target_spark.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from target_spark.extract.partition_reader import PartitionGroup
    from target_spark.extract.reader_options import ReadOptions

__all__ = ["TapDataSource", "TapPartition", "TapReader", "register_source"]

_NO_STREAMING = (
    "A tap cannot be read with Spark Structured Streaming: Spark needs the end of a batch before"
    " it reads the batch, and the same batch again after a failure, and the source of a tap"
    " provides neither. Run `target-spark run` on a schedule: it continues from the bookmarks"
    " that are committed with the rows."
)


class TapDataSource(DataSource):
    """Spark data source that reads one stream of a Singer tap as a DataFrame.

    Its options are documented in `target_spark.extract.reader_options.OPTIONS`.
    """

    settings: ClassVar[Mapping[str, Any] | None] = None
    """Settings of the tap, which `register_source` sets in a subclass; None for none.

    Spark pickles them with the class when it sends the class to its Python processes."""

    preset: ClassVar[Mapping[str, str]] = {}
    """Default values of the reader options, which `register_source` sets in a subclass."""

    @classmethod
    def name(cls) -> str:
        """Return "tap", the name of the data source for `spark.read.format`."""
        return "tap"

    def schema(self) -> StructType:
        """Return the Spark schema of the stream to read, derived from its JSON Schema in the tap.

        Raises:
            UnsupportedError: An option is unknown, missing or invalid.
        """
        return _build_struct(self._parsed_options)

    def reader(self, schema: StructType) -> TapReader:
        """Return the reader of the stream, which Spark uses for batch queries.

        Raises:
            UnsupportedError: The user has specified a schema that differs from that of the stream.
        """
        options = self._parsed_options
        if schema != _build_struct(options):
            raise UnsupportedError(
                f"The columns of stream {options.name} come from its schema: load it without a"
                " user-specified schema, then select and cast."
            )
        return TapReader(options)

    def streamReader(self, schema: StructType) -> NoReturn:  # noqa: ARG002, N802  Spark's
        """Raise an error, because Spark Structured Streaming is not supported.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(_NO_STREAMING)

    @cached_property
    def _parsed_options(self) -> ReadOptions:
        """Options of `spark.read`, parsed, with defaults from `register_source`.

        They are parsed once, and pickled with this object.
        """
        from target_spark.extract.reader_options import parse_options

        return parse_options({**self.preset, **self.options}, self.settings)


class TapReader(DataSourceReader):
    """Spark reader of a tap's stream. Each action on the DataFrame reads the stream again."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[TapPartition]:
        """Return the Spark input partitions, each with some of the partitions of the tap's stream.

        A child stream has one partition per parent record, so the tap reads all parent records to
        list its partitions.
        """
        from target_spark.extract.partition_reader import plan_groups

        return [TapPartition(group) for group in plan_groups(self._options)]

    def read(self, partition: TapPartition) -> Iterator[Any]:  # type: ignore[override]
        """Read one partition in a Spark worker, and yield its records as Arrow record batches."""
        from target_spark.extract.partition_reader import read_batches
        from target_spark.spark.arrow_workers import reuse_worker

        return reuse_worker(read_batches(self._options, partition.group))


@dataclass
class TapPartition(InputPartition):
    """Spark input partition: one or more partitions of a tap's stream, read by one Spark task."""

    group: PartitionGroup


def register_source(
    name: str, settings: Mapping[str, Any] | None = None, **preset: str
) -> type[TapDataSource]:
    """Return a data source class for a tap, to pass to ``spark.dataSource.register``.

    Args:
        name: The name of the data source for `spark.read.format`.
        settings: The settings of the tap. They may contain secrets, because Spark does not show
            them in its plans and logs.
        **preset: Default values of the data source's options.
    """

    class Registered(TapDataSource):
        @classmethod
        def name(cls) -> str:
            return name

    Registered.settings = None if settings is None else dict(settings)
    Registered.preset = preset
    return Registered


def _build_struct(options: ReadOptions) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    from target_spark.frames.arrow_conversion import arrow_schema

    struct: StructType = from_arrow_schema(arrow_schema(options.table_schema))
    return struct
