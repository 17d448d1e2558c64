"""What an AlterTable takes: columns that are new, grow, are written anew, stay or go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tap_core.protocols.fivetran.enums import DataType
from target_spark.fivetran.alter_plan import AlterPlan, plan_changes
from target_spark.fivetran.table_schema import DestinationColumn, FivetranSchema
from target_spark.fivetran.type_mapping import to_ddl
from target_spark.writers.type_widening import delta_widens, iceberg_widens

WIDENS = {"delta": delta_widens, "iceberg": iceberg_widens}


def shape(keys: str = "id", **types: DataType | tuple[int, int]) -> FivetranSchema:
    columns = []
    for name, type_ in types.items():
        digits = None if isinstance(type_, DataType) else type_
        plain = type_ if isinstance(type_, DataType) else DataType.DECIMAL
        columns.append(DestinationColumn(name, plain, name in keys.split(), digits, name))
    return FivetranSchema(tuple(columns))


def plan(
    now: FivetranSchema, asked: FivetranSchema, table_format: str = "delta", **options: Any
) -> AlterPlan:
    types = {column.column: to_ddl(column, table_format) for column in now.columns}
    given: dict[str, Any] = {"drops": False, "reserved": list(types), **options}
    return plan_changes(now, types, asked, table_format, WIDENS[table_format], **given)


def names(columns: tuple[DestinationColumn, ...]) -> list[str]:
    return [column.name for column in columns]


ROW = shape(id=DataType.INT, name=DataType.STRING, price=(10, 2))


def test_a_table_that_is_as_asked_needs_nothing() -> None:
    """AlterTable may be repeated."""
    found = plan(ROW, ROW)
    assert (found.describe(), found.changes_columns, found.after) == ([], False, ROW)


def test_columns_are_added_and_never_dropped_unless_told() -> None:
    """AlterTable drops no column that is not asked for, unless drop_columns says so."""
    asked = shape(id=DataType.INT, note=DataType.JSON)
    kept, dropping = plan(ROW, asked), plan(ROW, asked, drops=True)
    assert names(kept.after.columns) == ["id", "name", "price", "note"]
    assert (names(kept.added), kept.dropped) == (["note"], ())
    assert names(dropping.after.columns) == ["id", "note"]
    assert names(dropping.dropped) == ["name", "price"]
    assert dropping.describe() == [
        "column note is new, JSON",
        "column name is dropped",
        "column price is dropped",
    ]


def test_types_grow_in_place_where_the_format_can_and_are_written_anew_elsewhere() -> None:
    asked = shape(id=DataType.LONG, name=DataType.INT, price=(12, 4))
    delta, iceberg = plan(ROW, asked), plan(ROW, asked, "iceberg")
    assert (names(delta.widened), names(delta.converted)) == (["id", "price"], ["name"])
    assert (names(iceberg.widened), names(iceberg.converted)) == (["id"], ["name", "price"])


def test_types_that_are_one_in_spark_change_only_what_is_remembered() -> None:
    asked = shape(id=DataType.INT, name=DataType.XML, price=(10, 2))
    found = plan(ROW, asked)
    assert not found.changes_columns
    assert found.describe() == ["column name is XML, it was STRING"]


def test_a_type_that_the_format_lacks_still_has_its_own_bounds() -> None:
    asked = shape(id=DataType.SHORT, name=DataType.STRING, price=(10, 2))
    found = plan(ROW, asked, "iceberg")
    assert (found.changes_columns, names(found.narrowed)) == (False, ["id"])
    back = plan(asked, ROW, "iceberg")
    assert (back.changes_columns, back.narrowed) == (False, ())


def test_a_decimal_of_which_no_digits_are_said_keeps_those_it_has() -> None:
    open_ = DestinationColumn("price", DataType.DECIMAL, column="price")
    asked = FivetranSchema((*ROW.columns[:2], open_))
    assert plan(ROW, asked).describe() == []
    fresh = plan(shape(id=DataType.INT), asked)
    assert fresh.describe()[1] == "column price is new, DECIMAL(38, 10)"


def test_a_key_column_that_is_absent_leaves_the_key_and_stays() -> None:
    """A narrowed key takes effect although no column is dropped."""
    now = shape("id name", id=DataType.INT, name=DataType.STRING)
    found = plan(now, shape(id=DataType.INT))
    assert [(c.name, c.is_key) for c in found.after.columns] == [("id", True), ("name", False)]
    assert found.describe() == ["the key is id, it was id, name"]
    assert (found.changes_columns, names(found.unproven_keys)) == (False, ["id"])


def test_a_key_is_proven_only_where_it_or_its_values_change() -> None:
    wider = shape(id=DataType.LONG, name=DataType.INT, price=(10, 2))
    assert plan(ROW, wider).unproven_keys == ()
    text = shape(id=DataType.STRING, name=DataType.STRING, price=(10, 2))
    assert names(plan(ROW, text).unproven_keys) == ["id"]
    more = shape("id name", id=DataType.INT, name=DataType.STRING, price=(10, 2))
    assert names(plan(ROW, more).unproven_keys) == ["id", "name"]
    assert plan(ROW, shape("", id=DataType.INT)).unproven_keys == ()


def test_columns_keep_their_names_in_the_table_and_new_ones_take_no_other() -> None:
    odd = replace(ROW.columns[1], name="a b", column="a_b")
    now = FivetranSchema((ROW.columns[0], odd))
    asked = (
        replace(odd, column="changed"),
        DestinationColumn("A_B", DataType.INT),
        DestinationColumn("_pos", odd.type),
    )
    found = plan(
        now, FivetranSchema((ROW.columns[0], *asked)), "iceberg", reserved=["id", "a_b", "_pos"]
    )
    assert [(c.name, c.column) for c in found.after.columns] == [
        ("id", "id"),
        ("a b", "a_b"),
        ("A_B", "A_B_2"),
        ("_pos", "_pos_2"),
    ]
