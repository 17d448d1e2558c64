"""The plan of an AlterTable call: columns that are added, widened, converted, kept or dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tap_core.protocols.fivetran.enums import DataType
from target_spark.fivetran.alter_plan import AlterPlan, plan_changes
from target_spark.fivetran.table_schema import DestinationColumn, FivetranSchema
from target_spark.fivetran.type_mapping import to_ddl
from target_spark.writers.type_widening import delta_widens, iceberg_widens

WIDENS = {"delta": delta_widens, "iceberg": iceberg_widens}


def make_schema(keys: str = "id", **types: DataType | tuple[int, int]) -> FivetranSchema:
    columns = []
    for name, type_ in types.items():
        digits = None if isinstance(type_, DataType) else type_
        plain = type_ if isinstance(type_, DataType) else DataType.DECIMAL
        columns.append(DestinationColumn(name, plain, name in keys.split(), digits, name))
    return FivetranSchema(tuple(columns))


def plan(
    now: FivetranSchema, requested: FivetranSchema, table_format: str = "delta", **options: Any
) -> AlterPlan:
    types = {column.column: to_ddl(column, table_format) for column in now.columns}
    arguments: dict[str, Any] = {"drops": False, "reserved": list(types), **options}
    return plan_changes(now, types, requested, table_format, WIDENS[table_format], **arguments)


def names(columns: tuple[DestinationColumn, ...]) -> list[str]:
    return [column.name for column in columns]


ROW = make_schema(id=DataType.INT, name=DataType.STRING, price=(10, 2))


def test_unchanged_table_has_an_empty_plan() -> None:
    """AlterTable is idempotent."""
    alter_plan = plan(ROW, ROW)
    assert (alter_plan.describe(), alter_plan.changes_columns, alter_plan.after) == ([], False, ROW)


def test_columns_are_dropped_only_with_drop_columns() -> None:
    """AlterTable adds missing columns and keeps columns that are not in the request."""
    requested = make_schema(id=DataType.INT, note=DataType.JSON)
    keeping, dropping = plan(ROW, requested), plan(ROW, requested, drops=True)
    assert names(keeping.after.columns) == ["id", "name", "price", "note"]
    assert (names(keeping.added), keeping.dropped) == (["note"], ())
    assert names(dropping.after.columns) == ["id", "note"]
    assert names(dropping.dropped) == ["name", "price"]
    assert dropping.describe() == [
        "column note is new, JSON",
        "column name is dropped",
        "column price is dropped",
    ]


def test_types_are_widened_if_the_format_can_and_converted_otherwise() -> None:
    requested = make_schema(id=DataType.LONG, name=DataType.INT, price=(12, 4))
    delta, iceberg = plan(ROW, requested), plan(ROW, requested, "iceberg")
    assert (names(delta.widened), names(delta.converted)) == (["id", "price"], ["name"])
    assert (names(iceberg.widened), names(iceberg.converted)) == (["id"], ["name", "price"])


def test_types_with_one_spark_type_change_only_the_metadata() -> None:
    requested = make_schema(id=DataType.INT, name=DataType.XML, price=(10, 2))
    alter_plan = plan(ROW, requested)
    assert not alter_plan.changes_columns
    assert alter_plan.describe() == ["column name is XML, it was STRING"]


def test_narrower_fivetran_type_is_narrowed_without_a_column_change() -> None:
    requested = make_schema(id=DataType.SHORT, name=DataType.STRING, price=(10, 2))
    alter_plan = plan(ROW, requested, "iceberg")
    assert (alter_plan.changes_columns, names(alter_plan.narrowed)) == (False, ["id"])
    back = plan(requested, ROW, "iceberg")
    assert (back.changes_columns, back.narrowed) == (False, ())


def test_decimal_without_digits_keeps_its_current_digits() -> None:
    without_digits = DestinationColumn("price", DataType.DECIMAL, column="price")
    requested = FivetranSchema((*ROW.columns[:2], without_digits))
    assert plan(ROW, requested).describe() == []
    fresh = plan(make_schema(id=DataType.INT), requested)
    assert fresh.describe()[1] == "column price is new, DECIMAL(38, 10)"


def test_absent_key_column_leaves_the_key_but_is_kept() -> None:
    """The key changes although no column is dropped."""
    now = make_schema("id name", id=DataType.INT, name=DataType.STRING)
    alter_plan = plan(now, make_schema(id=DataType.INT))
    assert [(c.name, c.is_key) for c in alter_plan.after.columns] == [("id", True), ("name", False)]
    assert alter_plan.describe() == ["the key is id, it was id, name"]
    assert (alter_plan.changes_columns, names(alter_plan.keys_to_check)) == (False, ["id"])


def test_uniqueness_is_checked_only_if_the_key_or_its_values_change() -> None:
    wider = make_schema(id=DataType.LONG, name=DataType.INT, price=(10, 2))
    assert plan(ROW, wider).keys_to_check == ()
    text = make_schema(id=DataType.STRING, name=DataType.STRING, price=(10, 2))
    assert names(plan(ROW, text).keys_to_check) == ["id"]
    longer_key = make_schema("id name", id=DataType.INT, name=DataType.STRING, price=(10, 2))
    assert names(plan(ROW, longer_key).keys_to_check) == ["id", "name"]
    assert plan(ROW, make_schema("", id=DataType.INT)).keys_to_check == ()


def test_table_column_names_are_kept_and_new_ones_do_not_collide() -> None:
    renamed = replace(ROW.columns[1], name="a b", column="a_b")
    now = FivetranSchema((ROW.columns[0], renamed))
    requested = (
        replace(renamed, column="changed"),
        DestinationColumn("A_B", DataType.INT),
        DestinationColumn("_pos", renamed.type),
    )
    alter_plan = plan(
        now, FivetranSchema((ROW.columns[0], *requested)), "iceberg", reserved=["id", "a_b", "_pos"]
    )
    assert [(c.name, c.column) for c in alter_plan.after.columns] == [
        ("id", "id"),
        ("a b", "a_b"),
        ("A_B", "A_B_2"),
        ("_pos", "_pos_2"),
    ]
