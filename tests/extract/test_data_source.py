"""A tap's streams as DataFrames: `spark.read.format("tap")` on a real Spark."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from pyspark.sql.types import StructType

from pyspark_tap import register_source
from tap_core import Stream, Tap
from tap_core.exceptions import ConfigurationError
from tap_core.types import Context, Record
from target_spark.errors import FrameError, UnsupportedError
from target_spark.extract.data_source import TapDataSource
from target_spark.extract.partition_reader import plan_groups, read_batches
from target_spark.extract.reader_options import ReadOptions, parse_options
from tests.extract.sample_taps import REGIONS, SampleTap

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession

TAP = "tests.extract.sample_taps:SampleTap"
SECRET = "m4rk3r-of-a-t0ken"


class Shop:
    """Creates options of the tap and counts the reads of its contexts."""

    def __init__(self, folder: Path) -> None:
        self.visited = folder / "visits"
        self.visited.mkdir()
        self.file = folder / "config.json"

    def options(self, stream: str, **settings: Any) -> dict[str, str]:
        config = {"visits": str(self.visited), **settings}
        self.file.write_text(json.dumps(config))
        return {"tap": TAP, "stream": stream, "config": str(self.file)}

    def request(
        self, stream: str, options: dict[str, str] | None = None, **settings: Any
    ) -> ReadOptions:
        return parse_options({**self.options(stream, **settings), **(options or {})})

    def visits(self) -> Counter[str]:
        """Return the number of reads per context since the last call."""
        counts = Counter(path.name.rpartition(".")[0] for path in self.visited.iterdir())
        for path in self.visited.iterdir():
            path.unlink()
        return counts


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.fixture
def read(spark: SparkSession, shop: Shop) -> Callable[..., DataFrameReader]:
    def reader(stream: str, **settings: Any) -> DataFrameReader:
        return spark.read.format("tap").options(**shop.options(stream, **settings))

    return reader


def rows(request: ReadOptions) -> list[tuple[Any, ...]]:
    """Return the rows of a stream, read group by group in this process."""
    batches = (batch for group in plan_groups(request) for batch in read_batches(request, group))
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


# ------------------------------------------------------------------------- partitions


@pytest.mark.parametrize(
    ("stream", "contexts", "read_by_the_driver"),
    [
        ("orders", [{"region": region} for region in REGIONS], 0),
        ("journal", [None], 0),
        ("notes", [{"user": f"{region}{n}"} for region in REGIONS for n in range(2)], 4),
        ("users", [{"region": region} for region in REGIONS], 0),
    ],
)
def test_each_context_is_a_spark_partition(
    shop: Shop, stream: str, contexts: list[Any], read_by_the_driver: int
):
    """A child stream has one partition per parent record; only the parents are read for it."""
    groups = plan_groups(shop.request(stream))
    actual = [part and part.context for group in groups for part in group.parts]
    assert sorted(actual, key=str) == sorted(contexts, key=str)
    assert len(groups) == len(contexts)
    visited = shop.visits()
    assert visited.total() == read_by_the_driver
    assert not any(name.startswith(f"{stream}.") for name in visited)


def test_each_window_is_a_spark_partition(shop: Shop):
    """A stream that is read in windows has one partition per window, with its own rows."""
    request = shop.request("readings")
    groups = plan_groups(request)
    counts = [sum(batch.num_rows for batch in read_batches(request, group)) for group in groups]
    assert counts == [24, 24, 24]


def test_option_partitions_groups_contexts(shop: Shop):
    """With fewer partitions than contexts, each partition reads several contexts in turn."""
    request = shop.request("orders", {"partitions": "3"})
    assert [len(group.parts) for group in plan_groups(request)] == [2, 1, 1]
    assert Counter(row[0] for row in rows(request)) == dict.fromkeys(REGIONS, 30)


def test_stream_without_contexts_has_no_rows(shop: Shop):
    """A child stream of a parent without records is empty; this is not an error."""
    assert rows(shop.request("notes", regions=0)) == []


def test_option_state_continues_from_the_bookmarks(shop: Shop, tmp_path: Path):
    """Contexts with a bookmark are read from it on, the others completely."""
    entry = {
        "context": {"region": "north"},
        "replication_key": "updated_at",
        "replication_key_value": "2024-01-02T00:00:00Z",
    }
    state = json.dumps({"bookmarks": {"orders": {"partitions": [entry]}}})
    (tmp_path / "state.json").write_text(state)
    for option in (state, str(tmp_path / "state.json")):
        counts = Counter(row[0] for row in rows(shop.request("orders", {"state": option})))
        assert counts == {"north": 6, "south": 30, "east": 30, "west": 30}
    journal = {"replication_key": "id", "replication_key_value": 28}
    state = json.dumps({"bookmarks": {"journal": journal}})
    assert [row[0] for row in rows(shop.request("journal", {"state": state}))] == [28, 29]


# ---------------------------------------------------------------------------- options


def test_columns_are_the_selected_properties_of_the_catalog(shop: Shop, tmp_path: Path):
    """The catalog deselects properties; its selection of streams is ignored."""
    catalog = SampleTap(config={"visits": ""}).catalog_dict
    for entry in catalog["streams"]:
        for item in entry["metadata"]:
            item["metadata"]["selected"] = item["breadcrumb"] not in ([], ["properties", "note"])
    (tmp_path / "catalog.json").write_text(json.dumps(catalog))
    request = shop.request("orders", {"catalog": str(tmp_path / "catalog.json")}, rows=1)
    assert list(request.table_schema.types) == ["region", "id", "updated_at"]
    assert len(rows(request)) == len(REGIONS)


def test_stream_maps_rename_streams(shop: Shop):
    """A stream is read by its name after the stream maps."""
    maps = {"orders": {"__alias__": "sales", "note": None, "twice": "id * 2"}}
    request = shop.request("sales", stream_maps=maps, rows=2)
    assert list(request.table_schema.types) == ["region", "id", "updated_at", "twice"]
    assert {row[1]: row[3] for row in rows(request)} == {0: "0", 1: "2"}
    with pytest.raises(UnsupportedError, match=r"no stream sale\. Did you mean 'sales'\?"):
        shop.request("sale", stream_maps=maps)


class Invoices(Stream):
    """A stream with a namespace, such as the schema of a database."""

    name = "sales-invoices"
    schema: ClassVar = {"properties": {"id": {"type": "integer"}}}

    @property
    def namespace(self) -> str:
        return "sales"

    def get_records(self, context: Context | None) -> Iterator[Record]:
        """Yield two records."""
        del context
        yield {"id": 1}
        yield {"id": 2}


class InvoiceTap(Tap):
    """The tap with this stream."""

    name = "tap-invoices"
    config_jsonschema: ClassVar = {"properties": {}}

    def discover_streams(self) -> list[Stream]:
        """Return the stream."""
        return [Invoices(self)]


@pytest.mark.parametrize("name", ["sales-invoices", "sales.sales-invoices"])
def test_stream_with_a_namespace_is_read_with_and_without_it(name: str) -> None:
    request = parse_options({"tap": f"{__name__}:InvoiceTap", "stream": name})
    assert rows(request) == [(1,), (2,)]


def test_settings_are_read_from_files_and_environment_variables(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    """``ENV`` reads the environment, whose settings override those of files."""
    options = shop.options("journal", rows=3)
    monkeypatch.setenv("TAP_SAMPLE_ROWS", "2")
    assert len(rows(parse_options(options))) == 3
    assert len(rows(parse_options(options | {"config": f"{shop.file},ENV"}))) == 2


def test_secret_settings_are_rejected_in_options(shop: Shop):
    """An option may contain settings but no secret ones; the error does not show them."""
    options = shop.options("journal", rows=1)
    open_ = json.dumps({"visits": str(shop.visited), "rows": 1})
    assert len(rows(parse_options(options | {"config": open_}))) == 1
    secret = json.dumps({"visits": str(shop.visited), "api_token": SECRET})
    with pytest.raises(UnsupportedError, match="Spark shows options") as error:
        parse_options(options | {"config": secret})
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"stream": ""}, "The option stream is missing"),
        (
            {"stream": "order"},
            "no stream order. Did you mean 'orders'? It has: journal, kinds, notes",
        ),
        ({"retries": "3"}, "There is no option retries. Did you mean 'tries'?"),
        ({"tries": "0"}, "The option tries is '0': expected a positive integer"),
        ({"misfits": "drop"}, "The option misfits is 'drop': expected error or null"),
        ({"config": "{"}, "is not valid JSON"),
        ({"state": "/nowhere.json"}, "names /nowhere.json, which cannot be read"),
        ({"numbers_as_decimal": "38"}, "expected precision and scale, as in 38,9"),
        ({"numbers_as_decimal": "39,9"}, "at most 38 digits"),
        ({"numbers_as_decimal": "5,9"}, "no more places than digits"),
    ],
)
def test_invalid_option_is_rejected_with_a_hint(shop: Shop, options: dict[str, str], reason: str):
    """The error is raised before anything is read, and names the correct values."""
    with pytest.raises(UnsupportedError) as error:
        shop.request("orders", options)
    assert reason in str(error.value)


@pytest.mark.parametrize("option", ["catalog", "state"])
def test_file_that_is_not_utf_8_is_named_in_the_error(shop: Shop, tmp_path: Path, option: str):
    """The file of an option is read as that of the same option of a tap."""
    path = tmp_path / "file.json"
    path.write_bytes(b'{"streams": [], "bookmarks": {"caf\xe9": {}}}')
    with pytest.raises(ConfigurationError, match=re.escape(str(path))):
        parse_options(shop.options("orders") | {option: str(path)})


def test_user_specified_schema_is_rejected(shop: Shop):
    """A schema cannot change the columns of the stream."""
    source = TapDataSource(shop.options("orders"))
    assert source.reader(source.schema()).partitions()
    with pytest.raises(UnsupportedError, match="load it without a user-specified schema"):
        source.reader(StructType().add("region", "string"))


def test_streaming_read_is_rejected(shop: Shop):
    """The error of spark.readStream names `target-spark run` instead."""
    source = TapDataSource(shop.options("orders"))
    with pytest.raises(UnsupportedError, match="Run `target-spark run` on a schedule"):
        source.streamReader(source.schema())


# --------------------------------------------------------------------------- failures


def test_retried_context_has_its_rows_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    """A context is read again after a failure, and the rows of the failed try are discarded."""
    monkeypatch.setattr("target_spark.extract.retry.time.sleep", lambda _: None)
    for failure in ("raise", "exit"):
        settings = {"fails": "south", "times": 2, "how": failure, "api_token": SECRET}
        result = rows(shop.request("orders", {"tries": "3"}, **settings))
        assert len(result) == len(set(result)) == 120
        assert shop.visits()["orders.south"] == 3
    assert SECRET not in capfd.readouterr().err


@pytest.mark.parametrize("stream", ["orders", "journal"])
def test_permanently_failing_context_is_named_in_the_error(shop: Shop, stream: str):
    """SEC5: after the last try the error names the context and shows no setting or token."""
    fails = {"orders": "south", "journal": "all"}[stream]
    request = shop.request(stream, {"tries": "1"}, fails=fails, api_token=SECRET)
    with pytest.raises(FrameError, match=r"ValueError: no answer to https://x/\?token=") as error:
        rows(request)
    assert {"orders": "in the context {'region': 'south'}", "journal": "as a whole"}[stream] in str(
        error.value
    )
    assert SECRET not in str(error.value)
    assert str(error.value).count("***") == 2
    assert SECRET[::-1] not in str(error.value)
    assert error.value.__cause__ is None


def test_error_of_a_parent_names_the_child_stream(shop: Shop):
    """If contexts cannot be found, the error names the stream and shows no secret."""
    with pytest.raises(FrameError, match="contexts of stream notes cannot be found") as error:
        plan_groups(shop.request("notes", fails="south", api_token=SECRET))
    assert SECRET not in str(error.value)


class QuotedNames(Stream):
    """A stream with a property name that contains quotation marks."""

    name = "sizes"
    schema: ClassVar[dict[str, Any]] = {
        "properties": {"at": {"type": "object", "properties": {'24" wide': {"type": "integer"}}}}
    }

    def get_records(self, context: Context | None) -> Iterator[Record]:
        raise AssertionError("The stream is read.")


class QuotedTap(Tap):
    name = "tap-quoted"

    def discover_streams(self) -> list[Stream]:
        return [QuotedNames(self)]


def test_property_name_with_quotation_marks_is_named_in_the_error() -> None:
    request = parse_options({"tap": f"{__name__}:QuotedTap", "stream": "sizes"})
    message = r"""Stream sizes cannot .* property '24" wide' has .* Load it with target-spark run"""
    with pytest.raises(FrameError, match=message):
        plan_groups(request)


# --------------------------------------------------------------------------------- with Spark


@pytest.mark.spark
def test_stream_is_read_as_a_dataframe(
    spark: SparkSession, read: Callable[..., DataFrameReader], shop: Shop, tmp_path: Path
):
    """A DataFrame can be counted, limited, queried and written; each action reads the tap again."""
    orders = read("orders").load()
    assert orders.dtypes == [
        ("region", "string"),
        ("id", "bigint"),
        ("updated_at", "timestamp"),
        ("note", "string"),
    ]
    shop.visits()
    assert orders.count() == 120
    assert shop.visits() == {f"orders.{region}": 1 for region in REGIONS}
    orders.createOrReplaceTempView("orders")
    by_partition = spark.sql(
        "SELECT region, count(*), max(note), max(date_format(updated_at, 'dd HH:mm'))"
        " FROM (SELECT *, spark_partition_id() AS number FROM orders) GROUP BY region, number"
    )
    assert sorted(by_partition.collect()) == sorted(
        (region, 30, "order 9", "02 05:00") for region in REGIONS
    )
    assert len(orders.limit(5).collect()) == 5
    orders.write.format("delta").save(str(tmp_path / "table"))
    saved = spark.read.format("delta").load(str(tmp_path / "table")).collect()
    assert {(row.region, row.id, row.note) for row in saved} == {
        (region, number, f"order {number}") for region in REGIONS for number in range(30)
    }


@pytest.mark.spark
def test_columns_have_the_types_and_values_of_tables(
    spark: SparkSession, read: Callable[..., DataFrameReader], shop: Shop
):
    """Columns have the types that a table would get; big numbers and timestamps are exact."""
    kinds = read("kinds").load()
    types = shop.request("kinds").table_schema.types
    ddl = ", ".join(f"`{name}` {ddl}" for name, ddl in types.items())
    assert kinds.schema == spark.createDataFrame([], ddl).schema
    first = kinds.where("id = 1").selectExpr("huge", "exact", "unix_micros(at)", "inner.Name_x")
    assert list(map(str, first.first() or ())) == [
        "12345678901234567890123",
        "1234567890123456789.123456789",
        "1709231399123456",
        "n",
    ]
    assert [row.id for row in kinds.where("whole IS NULL").collect()] == [2]


@pytest.mark.spark
def test_invalid_value_is_an_error_or_null_by_option(read: Callable[..., DataFrameReader]):
    """An invalid value fails the query, or with the option becomes null."""
    with pytest.raises(Exception, match="record 3 does not fit: whole: not an integer of 64 bits"):
        read("kinds", odd=True).load().collect()
    replaced = read("kinds", odd=True).option("misfits", "null").load().where("id = 3")
    assert [(row.whole, row.text) for row in replaced.collect()] == [(None, "kept")]


@pytest.mark.spark
def test_registered_settings_are_not_shown_in_plans(spark: SparkSession, shop: Shop):
    """A registered data source class contains its settings; query plans do not show them."""
    settings = {"visits": str(shop.visited), "rows": 1, "api_token": SECRET}
    spark.dataSource.register(register_source("shop", settings, tap=TAP))
    orders = spark.read.format("shop").option("stream", "orders").load()
    assert orders.count() == len(REGIONS)
    for mode in ("extended", "formatted"):
        plan = spark.sparkContext._jvm.PythonSQLUtils.explainString(  # type: ignore[union-attr]
            orders._jdf.queryExecution(),
            mode,
        )
        assert "shop" in plan
        assert SECRET not in plan
