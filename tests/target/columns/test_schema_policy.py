"""The policy ``on_schema_change``: a table gets no column or type that the policy forbids."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from target_spark.columns import (
    ColumnOptions,
    ColumnSource,
    OnSchemaChange,
    TableSchema,
    schema_from_json_schema,
)
from target_spark.errors import SchemaChangeError
from tests.target.columns.test_evolution import (
    BIG,
    DATE,
    FLAG,
    INT,
    LAYOUTS,
    TEXT,
    array,
    never,
    struct,
)
from tests.target.columns.widening_of_all_types import diff_with_table, merge_table_schemas

EVOLVE, WIDEN = OnSchemaChange.EVOLVE, OnSchemaChange.WIDEN
IGNORE, FAIL = OnSchemaChange.IGNORE, OnSchemaChange.FAIL
WIDER = "decimal(38,0)"


def always(types: dict[str, str]) -> dict[OnSchemaChange, Any]:
    return dict.fromkeys(OnSchemaChange, types)


CASES: dict[str, tuple[dict[str, str], dict[str, Any], dict[OnSchemaChange, Any]]] = {
    "new property": (
        {"a": "bigint"},
        {"a": INT, "b": TEXT},
        {
            EVOLVE: {"a": "bigint", "b": "string"},
            WIDEN: {"a": "bigint", "b": "string"},
            IGNORE: [("omit", "b")],
            FAIL: "column b (string) is not in the table",
        },
    ),
    "dropped property": (
        {"a": "bigint", "b": "string"},
        {"a": INT},
        always({"a": "bigint", "b": "string"}),
    ),
    "wider type": (
        {"a": "bigint"},
        {"a": BIG},
        {
            EVOLVE: {"a": WIDER},
            WIDEN: {"a": WIDER},
            IGNORE: [("keep", "a")],
            FAIL: f"column a is bigint in the table and {WIDER} in the schema",
        },
    ),
    "narrower type": (
        {"a": WIDER},
        {"a": INT},
        always({"a": WIDER}),
    ),
    "type that a text column takes": (
        {"a": "string"},
        {"a": struct(x=INT)},
        always({"a": "string"}),
    ),
    "other type": (
        {"a": "bigint"},
        {"a": TEXT},
        {
            EVOLVE: {"a": "bigint", "a__string": "string"},
            WIDEN: "column a is bigint in the table and string in the schema",
            IGNORE: [("keep", "a")],
            FAIL: "column a is bigint in the table and string in the schema",
        },
    ),
    "other type that has a second column already": (
        {"a": "bigint", "a__string": "string"},
        {"a": TEXT},
        always({"a": "bigint", "a__string": "string"}),
    ),
    "new field": (
        {"s": "struct<`x`: bigint>"},
        {"s": struct(x=INT, y=FLAG)},
        {
            EVOLVE: {"s": "struct<`x`: bigint, `y`: boolean>"},
            WIDEN: {"s": "struct<`x`: bigint, `y`: boolean>"},
            IGNORE: [("omit", "s.y")],
            FAIL: "column s.y (boolean) is not in the table",
        },
    ),
    "other type of a field in a list": (
        {"s": "array<struct<`x`: bigint>>"},
        {"s": array(struct(x=DATE))},
        {
            EVOLVE: {"s": "array<struct<`x`: bigint, `x__date`: date>>"},
            WIDEN: "column s.element.x is bigint in the table and date in the schema",
            IGNORE: [("keep", "s.element.x")],
            FAIL: "column s.element.x is bigint in the table and date in the schema",
        },
    ),
    "type that target-spark does not write": (
        {"a": "map<string,int>"},
        {"a": TEXT},
        {
            EVOLVE: {"a": "map<string,int>", "a__string": "string"},
            WIDEN: "column a is map<string,int> in the table and string in the schema",
            IGNORE: "column a is map<string,int> in the table and string in the schema",
            FAIL: "column a is map<string,int> in the table and string in the schema",
        },
    ),
}


def wanted(
    policy: OnSchemaChange,
    properties: dict[str, Any],
    keys: tuple[str, ...] = (),
    options: ColumnOptions = ColumnOptions(),  # noqa: B008 - frozen
) -> TableSchema:
    schema = schema_from_json_schema({"properties": properties}, keys, options)
    return replace(schema, on_change=policy)


@pytest.mark.parametrize("policy", OnSchemaChange)
@pytest.mark.parametrize("case", CASES)
def test_each_kind_of_change_follows_the_policy(case: str, policy: OnSchemaChange) -> None:
    table, properties, expected = CASES[case]
    effect = expected[policy]
    if isinstance(effect, str):
        with pytest.raises(SchemaChangeError) as caught:
            diff_with_table(wanted(policy, properties), table)
        assert str(caught.value) == effect
        return
    merged, changes = diff_with_table(wanted(policy, properties), table)
    if isinstance(effect, list):
        assert merged.types == table
        assert [(change.kind, ".".join(change.path)) for change in changes] == effect
    else:
        assert merged.types == effect
        assert all(change.is_made for change in changes)


def test_type_that_the_format_cannot_widen_is_refused_under_widen() -> None:
    with pytest.raises(SchemaChangeError, match=r"a is bigint in the table and decimal\(38,0\)"):
        diff_with_table(wanted(WIDEN, {"a": BIG}), {"a": "bigint"}, never)


def test_error_names_every_refused_change_but_no_more_than_ten_in_its_message() -> None:
    properties = {f"p{number:02}": INT for number in range(12)}
    with pytest.raises(SchemaChangeError) as caught:
        diff_with_table(wanted(FAIL, {"a": TEXT, **properties}), {"a": "bigint"})
    assert caught.value.refused[0] == ("a", "string", "bigint")
    assert caught.value.refused[1:] == tuple((name, "bigint", None) for name in properties)
    assert str(caught.value).count("column ") == 10
    assert str(caught.value).endswith("; and 3 more")


@pytest.mark.parametrize("policy", OnSchemaChange)
def test_metadata_columns_are_added_under_every_policy(policy: OnSchemaChange) -> None:
    options = ColumnOptions(metadata=True, history=True)
    merged, changes = diff_with_table(wanted(policy, {"a": INT}, (), options), {"a": "bigint"})
    assert {change.kind for change in changes} == {"add"}
    assert {"_sdc_sequence", "_sdc_valid_from"} <= merged.types.keys()


@pytest.mark.parametrize("policy", OnSchemaChange)
def test_deletion_time_that_the_tap_declares_is_added_under_every_policy(
    policy: OnSchemaChange,
) -> None:
    merged, _ = diff_with_table(
        wanted(policy, {"a": INT, "_sdc_deleted_at": TEXT}), {"a": "bigint"}
    )
    assert merged.types["_sdc_deleted_at"] == "timestamp"


@pytest.mark.parametrize("source", ["id", "_ab_cdc_deleted_at"])
def test_key_and_deletion_marker_are_never_left_out(source: str) -> None:
    with pytest.raises(SchemaChangeError, match=rf"column {source} \(string\) is not in the table"):
        diff_with_table(wanted(IGNORE, {"a": INT, source: TEXT}, ("id",)), {"a": "bigint"})


def test_column_with_the_whole_record_is_never_left_out() -> None:
    with pytest.raises(SchemaChangeError, match="column record"):
        diff_with_table(wanted(IGNORE, {}), {"a": "bigint"})


def test_kept_column_is_filled_by_its_property() -> None:
    table = {"id": "int", "s": "struct<`x`: bigint, `m`: variant>", "f": "struct<`x`: date>"}
    merged, _ = diff_with_table(
        wanted(IGNORE, {"id": TEXT, "s": TEXT, "f": struct(y=INT)}, ("id",)), table
    )
    assert merged.keys == ("id",)
    assert merged.types == table
    for column in merged.columns:
        assert (column.feed, column.source) == (ColumnSource.PROPERTY, column.name)
    inside = [field.feed for field in merged.columns[1].type.fields]
    assert inside == [ColumnSource.PROPERTY, ColumnSource.NOTHING]


def test_partition_column_that_is_left_out_or_not_text_may_be_empty() -> None:
    schema = replace(
        wanted(IGNORE, {"a": TEXT, "b": TEXT, "c": TEXT}), text_partitions=("a", "b", "c")
    )
    merged, _ = diff_with_table(schema, {"a": "string", "b": "bigint"})
    assert merged.text_partitions == ("a",)


def test_partition_columns_of_the_table_may_not_be_empty_whatever_the_settings_are() -> None:
    schema = wanted(EVOLVE, {"a": TEXT, "b": INT, "c": TEXT})
    assert schema.with_text_partitions(["a", "b", "year"]).text_partitions == ("a",)
    assert replace(schema, text_partitions=("c",)).with_text_partitions(
        ["a", "c"]
    ).text_partitions == ("c", "a")


def test_schemas_of_one_run_are_merged_under_every_policy() -> None:
    merged, changes = merge_table_schemas(wanted(FAIL, {"a": INT}), wanted(FAIL, {"b": TEXT}))
    assert merged.on_change is FAIL
    assert merged.types == {"a": "bigint", "b": "string"}
    assert [change.kind for change in changes] == ["add"]


def test_prevented_changes_are_described_in_sentences() -> None:
    _, changes = diff_with_table(wanted(IGNORE, {"a": TEXT, "b": INT}), {"a": "bigint"})
    assert [change.describe() for change in changes] == [
        (
            "column a stays bigint, although its schema says string: values that do not fit are"
            " not stored in it"
        ),
        "column b (bigint) is not in the table",
    ]


# -------------------------------------------------------------------------- properties


@given(LAYOUTS, LAYOUTS, st.sampled_from(OnSchemaChange), st.booleans())
def test_table_gets_no_change_that_the_policy_forbids(
    old: TableSchema, new: TableSchema, policy: OnSchemaChange, can_widen: bool
) -> None:
    def widens(_old: str, _new: str) -> bool:
        return can_widen

    free, needed = diff_with_table(new, old.types, widens, old.sources)
    new = replace(new, on_change=policy)
    try:
        merged, changes = diff_with_table(new, old.types, widens, old.sources)
    except SchemaChangeError:
        assert policy is not EVOLVE
        assert policy is not WIDEN or any(change.instead_of for change in needed)
        assert policy is not FAIL or needed
        return
    changes_made = [change for change in changes if change.is_made]
    if policy in {IGNORE, FAIL}:
        assert merged.types == old.types
        assert not changes_made
    else:
        assert merged.types == free.types
        assert changes == needed
    if policy is WIDEN:
        assert not any(change.instead_of for change in changes_made)
    if policy is FAIL:
        assert not needed


@given(LAYOUTS, LAYOUTS)
def test_each_property_is_stored_or_reported_as_left_out(old: TableSchema, new: TableSchema):
    try:
        merged, changes = diff_with_table(
            replace(new, on_change=IGNORE), old.types, sources=old.sources
        )
    except SchemaChangeError:
        assert not any(column.feed is ColumnSource.PROPERTY for column in new.columns)
        return
    omitted = {
        change.path[0] for change in changes if change.kind == "omit" and not change.path[1:]
    }
    stored = [c.source for c in merged.columns if c.feed is ColumnSource.PROPERTY]
    assert len(stored) == len(set(stored))
    declared = {c.source for c in new.columns if c.feed is ColumnSource.PROPERTY}
    assert {*stored} == declared - omitted
