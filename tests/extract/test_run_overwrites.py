"""`target-spark run` reads streams in full whose tables it overwrites, or that do not exist."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tap_core import Stream, Tap
from tap_core import typing as th
from tap_core.sync.sync_warnings import find_unused_state
from tap_core.types import Context, Record
from target_spark.config import settings
from target_spark.extract.cli import _load_state, _make_overwrite_check
from target_spark.target import TargetSpark
from tests.extract.test_run_backfill import TAP, target_spark, write_settings

SCHEMA = th.PropertiesList(
    th.Property("id", th.IntegerType),
    th.Property("shop", th.IntegerType),
    th.Property("day", th.DateType),
).to_dict()
BOOKMARK = {"replication_key": "day", "replication_key_value": "2026-03-01"}


class Shops(Stream):
    """A stream with a bookmark and a child stream."""

    name = "shops"
    primary_keys = ("id",)
    replication_key = "day"
    schema = SCHEMA

    def get_records(self, context: Context | None) -> Iterable[Record]:
        """Yield three records from the starting value on."""
        start = self.get_starting_replication_key_value(context) or ""
        for number in (1, 2, 3):
            if (day := f"2026-0{number}-01") >= start:
                yield {"id": number, "day": day}

    def get_child_context(self, record: Record, context: Context | None) -> Context | None:
        """Return the context of the visits of a shop."""
        del context
        return {"shop": record["id"]}


class Visits(Stream):
    """The child stream, which is read in full for each shop."""

    name = "visits"
    parent_stream_type = Shops
    schema = SCHEMA

    def get_records(self, context: Context | None) -> Iterable[Record]:
        """Yield one record; its shop comes from the context."""
        del context
        yield {"id": 1}


class TapShops(Tap):
    """A tap with a parent and a child stream."""

    name = "tap-shops"

    def discover_streams(self) -> list[Stream]:
        """Return both streams."""
        return [Shops(self), Visits(self)]


def load(tmp_path: Path, **config: Any) -> tuple[dict[str, Any], Any]:
    """Load a state; return the bookmarks that are left, and what the parent has sent before."""
    target, tap = TargetSpark(config={"path": str(tmp_path), **config}), TapShops()
    overwrites = _make_overwrite_check(target, settings.load_options(target.config))
    _load_state(tap, {"bookmarks": {"shops": BOOKMARK, "other": BOOKMARK}}, overwrites)
    return tap.document.tap_state["bookmarks"], tap.streams["shops"].previously_sent_state


def test_stream_whose_table_is_overwritten_starts_from_the_beginning(tmp_path: Path) -> None:
    assert load(tmp_path) == ({"shops": BOOKMARK, "other": BOOKMARK}, None)
    assert load(tmp_path, write_mode="overwrite") == ({"other": BOOKMARK}, None)
    assert load(tmp_path, full_refresh=["shops"]) == ({"other": BOOKMARK}, None)


def test_bookmark_of_a_stream_that_restarts_is_not_called_foreign(tmp_path: Path) -> None:
    config = {"path": str(tmp_path), "write_mode": "overwrite"}
    target, tap = TargetSpark(config=config), TapShops()
    overwrites = _make_overwrite_check(target, settings.load_options(target.config))
    for state, count in (("shops", 0), ("other", 1)):
        _load_state(tap, {"bookmarks": {state: BOOKMARK}}, overwrites)
        assert len(list(find_unused_state(tap))) == count
        tap.document.tap_state.clear()


def test_parent_of_an_overwritten_child_is_read_in_full_and_not_sent_again(tmp_path: Path) -> None:
    streams = {"visits": {"write_mode": "overwrite"}}
    assert load(tmp_path, streams=streams) == ({"other": BOOKMARK}, BOOKMARK)


def test_name_that_a_stream_map_gives_the_stream_decides(tmp_path: Path) -> None:
    maps = {"shops": {"__alias__": "stores"}}
    streams = {"stores": {"write_mode": "overwrite"}}
    assert load(tmp_path, streams=streams, stream_maps=maps) == ({"other": BOOKMARK}, None)


@pytest.mark.spark
@pytest.mark.thorough
def test_second_run_leaves_all_rows_in_an_overwritten_table(tmp_path: Path) -> None:
    """The tables have a state, from which the run would continue and send the new rows only."""
    import pyarrow.parquet

    settings = {"path": str(tmp_path / "tables"), "format": "parquet", "write_mode": "overwrite"}
    for label in ("first", "second"):
        config = write_settings(tmp_path, **settings, label=label)
        target_spark("run", "--tap", TAP, "--config", config)
        rows = pyarrow.parquet.read_table(tmp_path / "tables" / "days").to_pylist()
        assert [row["label"] for row in rows] == [label] * 6


@pytest.mark.spark
@pytest.mark.thorough
def test_stream_whose_table_does_not_exist_is_read_in_full(tmp_path: Path) -> None:
    """The state is that of the other tables, here of one that had another name."""
    import pyarrow.parquet

    tables = tmp_path / "tables"
    for prefix in ("", "raw_"):
        settings = {"path": str(tables), "format": "parquet", "table_prefix": prefix}
        config = write_settings(tmp_path, **settings, label="x")
        target_spark("run", "--tap", TAP, "--config", config)
        assert pyarrow.parquet.read_table(tables / f"{prefix}days").num_rows == 6


@pytest.mark.spark
@pytest.mark.thorough
def test_child_stream_that_is_new_gets_the_children_of_all_parents(tmp_path: Path) -> None:
    """The bookmark of the parent would skip those of older records, which are not sent again."""
    import pyarrow.parquet

    tables = tmp_path / "tables"
    settings_ = write_settings(tmp_path, path=str(tables), format="parquet")
    catalog = {"streams": [TapShops().streams["shops"]._singer_catalog_entry.to_dict()]}
    (tmp_path / "catalog.json").write_text(json.dumps(catalog))
    arguments = (
        "run",
        "--tap",
        "tests.extract.test_run_overwrites:TapShops",
        "--config",
        settings_,
    )
    target_spark(*arguments, "--catalog", str(tmp_path / "catalog.json"))
    target_spark(*arguments)
    visits = pyarrow.parquet.read_table(tables / "visits").to_pylist()
    assert sorted(row["shop"] for row in visits) == [1, 2, 3]
    shops = pyarrow.parquet.read_table(tables / "shops").to_pylist()
    assert sorted(row["id"] for row in shops) == [1, 2, 3, 3]
