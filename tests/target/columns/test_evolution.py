"""Schema evolution: columns are added or widened, and an existing table's columns are kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from target_spark.columns import (
    Column,
    ColumnOptions,
    ColumnSource,
    SchemaChange,
    TableSchema,
    Text,
    Timestamp,
    can_share_batch,
    schema_from_json_schema,
)
from target_spark.columns.ddl_parser import parse_ddl
from target_spark.tables.identifiers import fold_case
from tests.target.columns.widening_of_all_types import diff_with_table, merge_table_schemas

INT: dict[str, Any] = {"type": "integer"}
BIG = {"type": "integer", "maximum": 10**30}
DECIMAL = {"type": "string", "format": "singer.decimal", "precision": 10, "scale": 2}
FLOAT = {"type": "number"}
TEXT = {"type": "string"}
TIME = {"type": "string", "format": "date-time"}
DATE = {"type": "string", "format": "date"}
FLAG = {"type": "boolean"}


def table_schema(keys: tuple[str, ...] = (), **properties: Any) -> TableSchema:
    return schema_from_json_schema(
        {"type": "object", "properties": properties}, keys, ColumnOptions()
    )


def struct(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def never(_old: str, _new: str) -> bool:
    return False


def test_new_column_is_added_last():
    merged, changes = merge_table_schemas(table_schema(a=INT), table_schema(b=TEXT, a=INT))
    assert list(merged.types) == ["a", "b"]
    assert changes == (SchemaChange("add", ("b",), "string"),)


def test_column_absent_from_the_new_schema_is_kept():
    merged, changes = merge_table_schemas(table_schema(a=INT, b=TEXT), table_schema(a=INT))
    assert list(merged.types) == ["a", "b"]
    assert merged.column_fed_by("b") is not None
    assert not changes


@pytest.mark.parametrize(
    "old,new,ddl",
    [
        (INT, BIG, "decimal(38,0)"),
        (INT, DECIMAL, "decimal(22,2)"),
        (DECIMAL, INT, "decimal(22,2)"),
        (DECIMAL, {**DECIMAL, "scale": 4}, "decimal(12,4)"),
    ],
)
def test_numbers_are_widened(old: Any, new: Any, ddl: str):
    merged, changes = merge_table_schemas(table_schema(a=old), table_schema(a=new))
    assert merged.types == {"a": ddl}
    assert changes == (SchemaChange("widen", ("a",), ddl),)
    assert can_share_batch(table_schema(a=old), merged)


@pytest.mark.parametrize(
    "old,new",
    [(TEXT, INT), (TEXT, TIME), (TEXT, struct(x=INT)), (BIG, INT), (FLOAT, INT), (FLAG, FLAG)],
)
def test_wider_column_accepts_a_narrower_type(old: Any, new: Any):
    merged, changes = merge_table_schemas(table_schema(a=old), table_schema(a=new))
    assert merged.types == table_schema(a=old).types
    assert not changes


@pytest.mark.parametrize(
    "old,new,name",
    [
        (INT, TEXT, "a__string"),
        (INT, FLOAT, "a__double"),
        (INT, TIME, "a__timestamp"),
        (DATE, TIME, "a__timestamp"),
        (TIME, DATE, "a__date"),
        (FLOAT, DECIMAL, "a__decimal_10_2"),
        (DECIMAL, FLOAT, "a__double"),
        (FLAG, INT, "a__bigint"),
        (INT, struct(x=INT), "a__struct"),
        (struct(x=INT), array(INT), "a__array"),
        (struct(x=INT), TEXT, "a__string"),
        (array(INT), array(TEXT), "a__array"),
        (BIG, {"type": "number", "multipleOf": 0.001}, "a__decimal_38_3"),
        (INT, {"type": "string", "contentEncoding": "base64"}, "a__binary"),
    ],
)
def test_incompatible_type_gets_a_new_column(old: Any, new: Any, name: str):
    before = table_schema(a=old)
    merged, changes = merge_table_schemas(before, table_schema(a=new))
    assert merged.column_fed_by("a").name == name
    assert merged.columns[0].feed is ColumnSource.EMPTIED
    assert changes == (SchemaChange("add", (name,), merged.types[name], instead_of="a"),)
    assert not can_share_batch(before, merged)
    merged_again, changes_again = merge_table_schemas(merged, table_schema(a=new))
    assert (merged_again, changes_again) == (merged, ())


def test_type_that_the_format_cannot_widen_gets_a_new_column():
    merged, changes = merge_table_schemas(table_schema(a=INT), table_schema(a=BIG), never)
    assert changes == (SchemaChange("add", ("a__decimal_38_0",), "decimal(38,0)", instead_of="a"),)
    assert list(merged.types) == ["a", "a__decimal_38_0"]


def test_can_widen_receives_old_and_new_type():
    calls = []

    def can_widen(old: str, new: str) -> bool:
        calls.append((old, new))
        return True

    merge_table_schemas(
        table_schema(a=INT, l=array(INT)), table_schema(a=BIG, l=array(BIG)), can_widen
    )
    assert calls == [("bigint", "decimal(38,0)")] * 2


def test_new_columns_get_unused_names():
    old = table_schema(a=array(INT), a__array=TEXT, a__array_2=array(TEXT))
    merged, _ = merge_table_schemas(old, table_schema(a=array(FLAG)))
    assert merged.column_fed_by("a").name == "a__array_3"
    assert merged.column_fed_by("a__array").name == "a__array"


def test_structs_and_structs_in_lists_are_evolved_field_by_field():
    old = table_schema(s=struct(x=INT, t=array(struct(y=INT))))
    new = table_schema(s=struct(x=TEXT, t=array(struct(y=BIG, z=FLAG))))
    merged, changes = merge_table_schemas(old, new)
    assert changes == (
        SchemaChange("widen", ("s", "t", "element", "y"), "decimal(38,0)"),
        SchemaChange("add", ("s", "t", "element", "z"), "boolean"),
        SchemaChange("add", ("s", "x__string"), "string", instead_of="x"),
    )
    assert merged.types["s"] == (
        "struct<`x`: bigint, `t`: array<struct<`y`: decimal(38,0), `z`: boolean>>, "
        "`x__string`: string>"
    )
    assert not can_share_batch(old, merged)


def test_batch_is_shared_unless_a_column_or_key_changes():
    old = table_schema(("a",), a=INT, s=struct(x=INT))
    merged, _ = merge_table_schemas(
        old, table_schema(("a",), a=INT, b=TEXT, s=struct(x=BIG, y=INT))
    )
    assert can_share_batch(old, merged)
    other_keys, _ = merge_table_schemas(old, table_schema(("a", "b"), a=INT, b=TEXT))
    assert not can_share_batch(old, other_keys)


def test_key_with_a_new_type_refers_to_its_new_column():
    merged, _ = merge_table_schemas(table_schema(("id",), id=INT), table_schema(("id",), id=TEXT))
    assert merged.keys == ("id__string",)
    assert merged.key_sources == ("id",)


def test_names_that_differ_only_in_case_keep_their_columns():
    old = table_schema(a=INT)
    merged, _ = merge_table_schemas(old, table_schema(a=INT, A=INT))
    assert merged.column_fed_by("a").name == "a"
    assert merged.column_fed_by("A").name == "A_2"
    table, _ = diff_with_table(table_schema(a=INT, A=INT), {"a": "bigint"})
    assert table.column_fed_by("a").name == "a"


def test_record_column_is_no_longer_filled_once_properties_are_declared():
    old = table_schema()
    merged, changes = merge_table_schemas(old, table_schema(a=INT))
    assert [column.feed for column in merged.columns] == [
        ColumnSource.NOTHING,
        ColumnSource.PROPERTY,
    ]
    assert changes == (SchemaChange("add", ("a",), "bigint"),)
    assert not can_share_batch(old, merged)


def test_metadata_columns_are_kept_when_schemas_are_merged():
    options = ColumnOptions(metadata=True)
    old = schema_from_json_schema({"properties": {"a": INT}}, (), options)
    merged, changes = merge_table_schemas(
        old, schema_from_json_schema({"properties": {"a": INT, "b": INT}}, (), options)
    )
    assert changes == (SchemaChange("add", ("b",), "bigint"),)
    assert merged.column_fed_by("_sdc_sequence", ColumnSource.METADATA) is not None


# ------------------------------------------------------------------ against a table


def test_order_and_other_columns_of_the_table_are_kept():
    table = {"z": "map<string,int>", "b": "string", "a": "bigint"}
    merged_schema, changes = diff_with_table(table_schema(a=INT, b=INT, c=FLAG), table)
    assert merged_schema.types == {**table, "c": "boolean"}
    assert [column.feed for column in merged_schema.columns] == [
        ColumnSource.NOTHING,
        ColumnSource.PROPERTY,
        ColumnSource.PROPERTY,
        ColumnSource.PROPERTY,
    ]
    assert merged_schema.columns[1].type == Text()
    assert changes == (SchemaChange("add", ("c",), "boolean"),)


@pytest.mark.parametrize(
    "ddl,schema,name,changed",
    [
        ("int", INT, "a", "bigint"),
        ("smallint", FLOAT, "a", "double"),
        ("float", FLOAT, "a", "double"),
        ("string", struct(x=INT), "a", None),
        ("timestamp_ntz", TIME, "a", None),
        ("timestamp_ntz", DATE, "a__date", "date"),
        ("array<timestamp_ntz>", array(TIME), "a", None),
        ("varchar(3)", TEXT, "a", "string"),
        ("char(3)", INT, "a", "string"),
        ("variant", TEXT, "a__string", "string"),
        ("map<string,string>", struct(x=INT), "a__struct", "struct<`x`: bigint>"),
        ("struct<x: int, `y z`: string>", struct(x=INT), "a", "bigint"),
        ("decimal(38,10)", INT, "a", None),
    ],
)
def test_foreign_column_is_used_widened_or_replaced_by_a_new_column(
    ddl: str, schema: Any, name: str, changed: str | None
):
    merged_schema, changes = diff_with_table(table_schema(a=schema), {"a": ddl})
    assert merged_schema.column_fed_by("a").name == name
    assert [change.ddl for change in changes] == ([changed] if changed else [])


def test_own_table_needs_no_changes():
    options = ColumnOptions(metadata=True)
    first = schema_from_json_schema(
        {"properties": {"a": INT, "A": TEXT, "s": struct(x=TIME)}}, ("a",), options
    )
    merged_schema, changes = diff_with_table(first, first.types)
    assert not changes
    assert merged_schema == first


def test_foreign_columns_are_not_written():
    merged_schema, _ = diff_with_table(table_schema(a=INT), {"a": "bigint", "theirs": "string"})
    assert [column.feed for column in merged_schema.columns] == [
        ColumnSource.PROPERTY,
        ColumnSource.NOTHING,
    ]


def test_replaced_columns_are_emptied_unless_of_a_foreign_type():
    table = {"a": "date", "b": "map<string,int>", "_sdc_sequence": "bigint"}
    merged_schema, _ = diff_with_table(table_schema(a=TEXT, b=TEXT), table)
    assert {column.name: column.feed for column in merged_schema.columns} == {
        "a": ColumnSource.EMPTIED,
        "b": ColumnSource.NOTHING,
        "_sdc_sequence": ColumnSource.EMPTIED,
        "a__string": ColumnSource.PROPERTY,
        "b__string": ColumnSource.PROPERTY,
    }


def test_new_column_gets_the_description_as_its_comment():
    _, changes = merge_table_schemas(
        table_schema(a=INT), table_schema(a=INT, b={**INT, "description": "how many"})
    )
    assert [change.comment for change in changes] == ["how many"]


def test_schema_changes_are_described_in_sentences():
    _, changes = merge_table_schemas(
        table_schema(s=struct(a=INT)), table_schema(s=struct(a=TEXT, b=INT))
    )
    assert [change.describe() for change in changes] == [
        "new column s.a__string (string), because column a cannot be widened",
        "new column s.b (bigint)",
    ]


# --------------------------------------------------- property names stored in a table


def runs(*layouts: TableSchema) -> list[TableSchema]:
    """Return the schemas of a table after each of several runs, one run per layout."""
    merged_schemas = [layouts[0]]
    remembered = layouts[0].sources
    for schema in layouts[1:]:
        merged, _ = diff_with_table(schema, merged_schemas[-1].types, sources=remembered)
        remembered |= merged.sources
        merged_schemas.append(merged)
    return merged_schemas


def test_sources_contain_renamed_properties_only():
    schema = table_schema(a=INT, A=INT, s=array(struct(x=INT, X=INT)), **{"b c": INT})
    assert schema.sources == {"`a_2`": "a", "`s`.`element`.`x_2`": "x", "`b_c`": "b c"}
    assert table_schema(a=INT, s=struct(b=INT)).sources == {}


def test_property_that_changes_case_keeps_its_column_if_unambiguous():
    assert runs(table_schema(a=INT), table_schema(A=INT))[-1].column_fed_by("A").name == "a"
    last = runs(table_schema(a=INT), table_schema(a=INT, A=INT), table_schema(A=INT))[-1]
    assert last.column_fed_by("A").name == "A_2"


def test_property_whose_type_changes_does_not_get_the_column_of_a_former_property():
    """The column of the former type, ``a_b`` in a new table, belongs to the property ``a_b``."""
    changed, _ = merge_table_schemas(
        table_schema(**{"a b": struct(x=INT)}), table_schema(**{"a b": TEXT})
    )
    first, _ = diff_with_table(changed, {"a_b": "string"}, sources={})
    second, changes = diff_with_table(changed, first.types, sources=first.sources)
    assert first.sources == {"`a_b__string`": "a b"}
    assert second.column_fed_by("a b").name == "a_b__string"
    assert changes == ()


# --------------------------------------------------------------------------------- DDL


@pytest.mark.parametrize(
    "written,ddl",
    [
        (
            "STRUCT<a: INT NOT NULL, `b``c`: STRING COMMENT 'x, <y>'>",
            "struct<`a`: int, `b``c`: string>",
        ),
        (
            "struct<a.b:int,c d:array<struct<x:decimal(10,2)>>>",
            "struct<`a.b`: int, `c d`: array<struct<`x`: decimal(10,2)>>>",
        ),
        ("decimal", "decimal(10,0)"),
        ("Timestamp_LTZ", "timestamp"),
        ("interval day", "interval day"),
        ("struct<>", "struct<>"),
        ("map<string,struct<a:int>>", "map<string,struct<a:int>>"),
    ],
)
def test_ddl_of_spark_is_parsed(written: str, ddl: str):
    assert parse_ddl(written).ddl == ddl


# -------------------------------------------------------------------------- properties

SCALARS = st.sampled_from([INT, BIG, DECIMAL, FLOAT, TEXT, TIME, DATE, FLAG])
SCHEMAS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        inner.map(array),
        st.dictionaries(st.sampled_from("xyX"), inner, min_size=1, max_size=3).map(
            lambda p: struct(**p)
        ),
    ),
    max_leaves=6,
)
LAYOUTS = st.dictionaries(
    st.sampled_from(["a", "b", "A", "a b", "a__string", "c"]), SCHEMAS, max_size=4
).map(lambda properties: table_schema(**properties))
FREE_OF_CONFLICTS = st.dictionaries(st.sampled_from("abcd"), st.just(INT), min_size=1).map(
    lambda properties: table_schema(**properties)
)


def has_unique_columns(schema: TableSchema) -> bool:
    names = [fold_case(column.name) for column in schema.columns]
    fed = [
        (column.feed, column.source)
        for column in schema.columns
        if column.feed is not ColumnSource.NOTHING
    ]
    return len(set(names)) == len(names) and len(set(fed)) == len(fed)


@given(LAYOUTS, LAYOUTS)
def test_merge_only_adds_columns_and_covers_every_property(old: TableSchema, new: TableSchema):
    merged, changes = merge_table_schemas(old, new)
    assert [column.name for column in merged.columns[: len(old.columns)]] == list(old.types)
    assert has_unique_columns(merged)
    for column in new.columns:
        if column.feed is ColumnSource.PROPERTY:
            assert merged.column_fed_by(column.source) is not None
    assert len({change.path for change in changes}) == len(changes)
    assert (merged.types == old.types) == (not changes)


@given(LAYOUTS)
def test_merge_with_the_same_schema_changes_nothing(schema: TableSchema):
    assert merge_table_schemas(schema, schema) == (schema, ())


@given(LAYOUTS, LAYOUTS)
def test_repeated_schema_changes_nothing(old: TableSchema, new: TableSchema):
    merged, _ = merge_table_schemas(old, new)
    merged_again, changes = merge_table_schemas(merged, new)
    assert not changes
    assert merged_again == merged
    assert can_share_batch(merged, merged_again)


@given(LAYOUTS, LAYOUTS)
def test_table_of_a_merged_schema_needs_no_changes(old: TableSchema, new: TableSchema):
    merged, _ = merge_table_schemas(old, new)
    merged_schema, changes = diff_with_table(merged, merged.types)
    assert not changes
    assert merged_schema.types == merged.types


@given(FREE_OF_CONFLICTS, FREE_OF_CONFLICTS)
def test_merge_is_commutative_without_conflicts(first: TableSchema, other: TableSchema):
    merged, _ = merge_table_schemas(first, other)
    merged_reversed, _ = merge_table_schemas(other, first)
    assert merged.types == dict(merged_reversed.types)
    assert set(merged.columns) == set(merged_reversed.columns)


def map_sources_to_columns(schema: TableSchema, path: tuple[str, ...] = ()) -> dict[str, str]:
    return {c.source: c.name for c in schema.columns if c.feed is ColumnSource.PROPERTY}


SETS = st.lists(st.sampled_from(["a", "A", "a b", "a_b", "A_b", "a_2"]), min_size=1, unique=True)


@given(st.lists(SETS, min_size=2, max_size=4))
def test_property_is_never_written_to_the_column_of_another(sets: list[list[str]]):
    owners: dict[str, str] = {}
    merged_schema = runs(*(table_schema(**dict.fromkeys(names, INT)) for names in sets))
    known: dict[str, str] = {}
    for schema in merged_schema:
        for source, name in map_sources_to_columns(schema).items():
            renamed = fold_case(owners.get(name, source)) == fold_case(source)
            assert renamed, (sets, owners, source, name)
            if name == source or fold_case(name) != fold_case(source):  # else it is borrowed
                assert known.setdefault(source, name) == name, (sets, source, name, known)
                owners[name] = source


@given(st.permutations(["a", "A", "a b", "a_b", "A_b"]))
def test_column_names_do_not_depend_on_the_order_of_properties(names: list[str]):
    assert map_sources_to_columns(
        table_schema(**dict.fromkeys(names, INT))
    ) == map_sources_to_columns(table_schema(**dict.fromkeys(sorted(names), INT)))


@given(st.lists(st.sampled_from([INT, TEXT, DATE, TIME, FLOAT, BIG, DECIMAL]), min_size=2))
def test_alternating_types_add_each_column_once(kinds: list[Any]):
    schema = runs(*(table_schema(a=kind) for kind in [*kinds, *kinds]))
    assert schema[-1].types == schema[len(kinds) - 1].types
    assert len(schema[-1].columns) <= len({str(kind) for kind in kinds})
    in_one_run = table_schema(a=kinds[0])
    for kind in [*kinds, *kinds]:
        in_one_run, _ = merge_table_schemas(in_one_run, table_schema(a=kind))
    assert len(in_one_run.columns) <= len(schema[-1].columns)


@given(LAYOUTS, st.lists(LAYOUTS, min_size=1, max_size=3), st.lists(st.booleans(), min_size=3))
@example(
    table_schema(a=struct(x=INT)),
    [table_schema(a=INT), table_schema(A=struct(x=INT))],
    [False, True, False],
)
def test_batch_boundaries_do_not_affect_the_table(
    first: TableSchema, more: list[TableSchema], written: list[bool]
):
    def load(at_each: list[bool]) -> dict[str, str]:
        schema, table = first, None
        for next_schema, write in zip(more, at_each, strict=False):
            if write:
                table = fit(schema, table)
            schema, _ = merge_table_schemas(schema, next_schema)
        return fit(schema, table)

    def fit(schema: TableSchema, table: dict[str, str] | None) -> dict[str, str]:
        return schema.types if table is None else diff_with_table(schema, table)[0].types

    assert load(written) == load([False] * 3)


@given(st.permutations([INT, BIG, DECIMAL]))
def test_numbers_that_fit_one_decimal_share_it_in_any_order(order: list[Any]):
    small = {"type": "string", "format": "singer.decimal", "precision": 5, "scale": 1}
    merged = table_schema(a=small)
    for schema in (*[s for s in order if s is not BIG], small):
        merged, _ = merge_table_schemas(merged, table_schema(a=schema))
    assert merged.types == {"a": "decimal(22,2)"}


@given(LAYOUTS)
def test_column_types_round_trip_through_ddl(schema: TableSchema):
    assert {name: parse_ddl(ddl).ddl for name, ddl in schema.types.items()} == schema.types


def test_deleted_at_column_added_by_the_loader_is_metadata():
    added = Column("_sdc_deleted_at", "_sdc_deleted_at", Timestamp(), feed=ColumnSource.METADATA)
    schema = TableSchema((*table_schema(a=INT).columns, added))
    merged_schema, changes = diff_with_table(schema, {"a": "bigint"})
    assert merged_schema.columns[-1].feed is ColumnSource.METADATA
    assert changes == (SchemaChange("add", ("_sdc_deleted_at",), "timestamp"),)
