"""Spark's Python data source for the streams of a tap: `spark.read.format("tap")`.

Spark creates these objects in separate processes on the driver, and sends them pickled to its
workers. They delegate to `partition_reader` and `reader_options`. Imports are lazy except
`pyspark`: Spark imports this module whenever any Python data source is used.

Source: Spark's guide "Python Data Source API".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
    """Spark data source that reads one stream of a tap as a DataFrame.

    `target_spark.extract.reader_options.OPTIONS` lists the options.
    """

    settings: ClassVar[Mapping[str, Any] | None] = None
    """Settings of the tap, pickled with the class."""

    preset: ClassVar[Mapping[str, str]] = {}
    """Default values of options."""

    @classmethod
    def name(cls) -> str:
        """Return the format name of the data source, for `spark.read.format`."""
        return "tap"

    def schema(self) -> StructType:
        """Return the Spark schema of the stream: the columns that its table would have.

        Raises:
            UnsupportedError: An option is invalid.
        """
        return _build_struct(self._request())

    def reader(self, schema: StructType) -> TapReader:
        """Return a reader of the stream.

        Raises:
            UnsupportedError: ``schema`` differs from the schema of the stream.
        """
        request = self._request()
        if schema != _build_struct(request):
            raise UnsupportedError(
                f"The columns of stream {request.name} come from its schema: load it without a"
                " user-specified schema, then select and cast."
            )
        return TapReader(request)

    def streamReader(self, schema: StructType) -> NoReturn:  # noqa: ARG002, N802  Spark's
        """Raise an error, since streaming reads are not supported.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(_NO_STREAMING)

    def _request(self) -> ReadOptions:
        """The parsed options. They are parsed once, and pickled together with this object."""
        options: ReadOptions | None = self.__dict__.get("_parsed")
        if options is None:
            from target_spark.extract.reader_options import parse_options

            options = self._parsed = parse_options({**self.preset, **self.options}, self.settings)
        return options


class TapReader(DataSourceReader):
    """Spark reader of a tap's stream. Each DataFrame action reads the stream again."""

    def __init__(self, request: ReadOptions) -> None:
        self._request = request

    def partitions(self) -> list[TapPartition]:
        """Return Spark's input partitions, each with one or more contexts of the stream.

        A context is the part of a stream that the tap reads at once, such as one parent record. To
        find the contexts of a child stream, the records of its parent stream are read.
        """
        from target_spark.extract.partition_reader import plan_groups

        return [TapPartition(group) for group in plan_groups(self._request)]

    def read(self, partition: TapPartition) -> Iterator[Any]:  # type: ignore[override]
        """Read one partition in a Spark worker, and yield its rows as record batches."""
        from target_spark.extract.partition_reader import read_batches
        from target_spark.spark.arrow_workers import reuse_worker

        return reuse_worker(read_batches(self._request, partition.group))


@dataclass
class TapPartition(InputPartition):
    """Spark input partition: a group of contexts that one Spark task reads.

    A context is the part of a stream that the tap reads at once, such as one parent record.
    """

    group: PartitionGroup


def register_source(
    name: str, settings: Mapping[str, Any] | None = None, **preset: str
) -> type[TapDataSource]:
    """Return a data source class for a tap, to pass to ``spark.dataSource.register``.

    Args:
        name: The format name of the data source, for `spark.read.format`.
        settings: The settings of the tap. They may contain secrets, because Spark does not show
            them in plans or logs.
        **preset: Default values of the data source's options.
    """

    class Registered(TapDataSource):
        @classmethod
        def name(cls) -> str:
            return name

    Registered.settings = None if settings is None else dict(settings)
    Registered.preset = preset
    return Registered


def _build_struct(request: ReadOptions) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    from target_spark.frames.arrow_conversion import arrow_schema

    struct: StructType = from_arrow_schema(arrow_schema(request.table_schema))
    return struct
