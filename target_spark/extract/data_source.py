"""A tap's streams for `spark.read.format("tap")`: Spark's own interface for sources in Python.

Rules of the room: Spark makes these objects in processes of its own, on the driver, and hands
them to its workers, pickled. All work is done elsewhere; here it is only spoken as Spark asks
for it. Nothing but `pyspark` is imported before something is asked for: Spark looks into this
room whenever a source in Python is wanted, whichever. Source: Spark's guide "Python Data Source
API".
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
    "A tap cannot be read as a stream of Spark's: Spark wants to know where a batch ends before"
    " it is read, and to be given the same batch again after a failure, and the source of a tap"
    " can say neither. Run `target-spark run` on a schedule: it goes on from the bookmarks that"
    " are committed with the rows."
)


class TapDataSource(DataSource):
    """One stream of a tap; `target_spark.extract.reader_options.OPTIONS` says by what options."""

    settings: ClassVar[Mapping[str, Any] | None] = None
    """Settings of the tap that travel with the class."""

    preset: ClassVar[Mapping[str, str]] = {}
    """Options that hold unless they are given."""

    @classmethod
    def name(cls) -> str:
        """Return the name by which it is asked for."""
        return "tap"

    def schema(self) -> StructType:
        """Return the stream's columns, as its table would have them.

        Raises:
            UnsupportedError: the options cannot be followed.
        """
        return _build_struct(self._request())

    def reader(self, schema: StructType) -> TapReader:
        """Return what reads the stream.

        Raises:
            UnsupportedError: other columns are asked for than the stream has.
        """
        request = self._request()
        if schema != _build_struct(request):
            raise UnsupportedError(
                f"The columns of stream {request.name} are those that its schema says: load it"
                " without a schema of your own, then select and cast."
            )
        return TapReader(request)

    def streamReader(self, schema: StructType) -> NoReturn:  # noqa: ARG002, N802  Spark's
        """Refuse.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(_NO_STREAMING)

    def _request(self) -> ReadOptions:
        """Return what is asked for, made once: it goes where this object goes."""
        made: ReadOptions | None = self.__dict__.get("_made")
        if made is None:
            from target_spark.extract.reader_options import parse_options

            made = self._made = parse_options({**self.preset, **self.options}, self.settings)
        return made


class TapReader(DataSourceReader):
    """Reads a stream once more for each frame that is loaded."""

    def __init__(self, request: ReadOptions) -> None:
        self._request = request

    def partitions(self) -> list[TapPartition]:
        """Return the contexts of the stream; of a parent, its records are read for them."""
        from target_spark.extract.partition_reader import plan_groups

        return [TapPartition(group) for group in plan_groups(self._request)]

    def read(self, partition: TapPartition) -> Iterator[Any]:  # type: ignore[override]
        """Yield the rows of some contexts as batches; in a worker."""
        from target_spark.extract.partition_reader import read_batches
        from target_spark.spark.arrow_workers import reuse_worker

        return reuse_worker(read_batches(self._request, partition.group))


@dataclass
class TapPartition(InputPartition):
    """Some contexts of a stream."""

    group: PartitionGroup


def register_source(
    name: str, settings: Mapping[str, Any] | None = None, **preset: str
) -> type[TapDataSource]:
    """Return a class for ``spark.dataSource.register``, to be asked for by ``name``.

    ``settings`` are the tap's; they may hold secrets, and stand in no plan and no log. ``preset``
    are options that need not be given then.
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

    from target_spark.extract.arrow_conversion import arrow_schema

    made: StructType = from_arrow_schema(arrow_schema(request.layout))
    return made
