"""Selection of properties in schemas and records, compared with a plain implementation."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tap_core.records.prune import (
    compile_pruner,
    get_selected_schema,
    pop_deselected_record_properties,
    prune_schema,
)
from tap_core.singerlib.catalog import MetadataMapping, SelectionMask

WITHOUT_DEADLINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

NAMES = st.sampled_from(["a", "b", "c", "properties"])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.sampled_from(["", "x"]))
RECORDS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    NAMES,
    st.recursive(
        SCALARS,
        lambda inner: st.dictionaries(NAMES, inner, max_size=4) | st.lists(inner, max_size=2),
        max_leaves=12,
    ),
    max_size=5,
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(
    lambda names: tuple(part for name in names for part in ("properties", name)),
)
BREADCRUMBS = (
    st.just(())
    | PATHS
    | st.lists(st.sampled_from(["properties", "items", "a"]), max_size=5).map(tuple)
)
MASKS = st.dictionaries(BREADCRUMBS, st.booleans(), max_size=8).map(SelectionMask)
LEAVES = st.sampled_from(
    [
        {"type": "string"},
        {"type": ["integer", "null"]},
        {"anyOf": [{"type": "object"}, {"type": "null"}]},
        {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        {},
        True,
    ],
)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda properties, kind, required: {
            "type": kind,
            "properties": properties,
            "required": required,
        },
        st.dictionaries(NAMES, inner, max_size=4),
        st.sampled_from(["object", ["object", "null"], ["null", "object"]]),
        st.lists(NAMES, unique=True, max_size=3),
    )


SCHEMAS = objects(st.recursive(LEAVES, objects, max_leaves=10))


def is_selected(mask: dict[tuple[str, ...], bool], path: tuple[str, ...]) -> bool:
    """Return the mask's value for a breadcrumb, else that of its parent, else True."""
    while path not in mask:
        if len(path) < 2:
            return True
        path = path[:-2]
    return mask[path]


def select_in_record(record: Any, mask: dict[Any, bool], path: tuple[str, ...] = ()) -> Any:
    """Return a copy of a record with only the selected properties."""
    if not isinstance(record, dict):
        return record
    return {
        name: select_in_record(value, mask, (*path, "properties", name))
        for name, value in record.items()
        if is_selected(mask, (*path, "properties", name))
    }


def select_in_schema(schema: Any, mask: dict[Any, bool], path: tuple[str, ...] = ()) -> Any:
    """Return a copy of a schema with only the selected properties."""
    if not isinstance(schema, dict) or "object" not in schema.get("type", ""):
        return schema
    selected = {
        name: select_in_schema(value, mask, (*path, "properties", name))
        for name, value in schema["properties"].items()
        if is_selected(mask, (*path, "properties", name))
    }
    deselected = schema["properties"].keys() - selected.keys()
    required = [name for name in schema["required"] if name not in deselected]
    return {**schema, "properties": selected, "required": required}


@WITHOUT_DEADLINE
@given(record=RECORDS, mask=MASKS)
def test_compiled_pruner_equals_the_plain_implementation(record, mask):
    expected = select_in_record(record, mask)
    prune = compile_pruner(mask)
    if prune is not None:
        prune(record)
    assert record == expected


@WITHOUT_DEADLINE
@given(record=RECORDS, mask=MASKS)
def test_pop_deselected_properties_equals_the_plain_implementation(record, mask):
    expected = select_in_record(record, mask)
    pop_deselected_record_properties(record, {}, mask)
    assert record == expected


@WITHOUT_DEADLINE
@given(record=RECORDS, mask=MASKS)
def test_pruner_is_none_only_if_nothing_is_deselected(record, mask):
    if compile_pruner(mask) is None:
        assert select_in_record(record, mask) == record


@WITHOUT_DEADLINE
@given(schema=SCHEMAS, mask=MASKS)
def test_selected_schema_equals_the_plain_implementation(schema, mask):
    before = deepcopy(schema)
    expected = select_in_schema(schema, mask)
    assert prune_schema(schema, mask) == expected
    assert get_selected_schema("some_stream", schema, mask) == expected
    assert schema == before


@WITHOUT_DEADLINE
@given(schema=SCHEMAS, mask=MASKS)
def test_selected_schema_is_a_deep_copy(schema, mask):
    result = prune_schema(schema, mask)
    before = deepcopy(schema)
    result["required"].append("another")
    for definition in result["properties"].values():
        if isinstance(definition, dict):
            definition["description"] = "changed"
    assert schema == before


def test_pruner_changes_the_record_and_nested_dicts_in_place():
    nested = {"keep": 1, "drop": 2}
    record = {"id": 1, "nested": nested, "secret": "x"}
    mask = SelectionMask(
        {
            (): True,
            ("properties", "secret"): False,
            ("properties", "nested", "properties", "drop"): False,
        },
    )
    prune = compile_pruner(mask)
    assert prune is not None
    prune(record)
    assert record == {"id": 1, "nested": {"keep": 1}}
    assert record["nested"] is nested


def test_nested_selection_ignores_values_that_are_not_dicts():
    mask = SelectionMask({("properties", "n", "properties", "x"): False})
    prune = compile_pruner(mask)
    assert prune is not None
    for value in (None, 3, "x", ["x"], [{"x": 1}]):
        record = {"n": value}
        prune(record)
        assert record == {"n": value}


@pytest.mark.parametrize(
    "mask",
    [
        {},
        {(): True},
        {(): True, ("properties", "a"): True},
        {(): True, ("properties", "a", "items", "properties", "b"): False},
    ],
)
def test_no_pruner_is_compiled_if_no_property_is_deselected(mask):
    assert compile_pruner(SelectionMask(mask)) is None


def test_deselected_stream_keeps_only_explicitly_selected_properties():
    mask = SelectionMask({(): False, ("properties", "a"): True})
    prune = compile_pruner(mask)
    assert prune is not None
    record = {"a": {"inner": 1}, "b": 2}
    prune(record)
    assert record == {"a": {"inner": 1}}


def test_pruner_ignores_later_changes_of_the_mask():
    mask = SelectionMask({("properties", "a"): False})
    prune = compile_pruner(mask)
    assert prune is not None
    mask["properties", "a"] = True
    record = {"a": 1}
    prune(record)
    assert record == {}


def test_required_becomes_an_empty_list():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    result = prune_schema(schema, SelectionMask({("properties", "a"): False}))
    assert result == {"type": "object", "properties": {}, "required": []}


def test_required_of_draft_3_is_kept_unchanged():
    """In draft 3, ``required: true`` in a property means that its object must have it."""
    address = {"type": "object", "required": True, "properties": {"a": {"type": "string"}}}
    schema = {"type": "object", "properties": {"place": address}}
    mask = SelectionMask({(): True, ("properties", "place"): True})
    assert prune_schema(schema, mask) == schema


def test_deselected_parent_removes_an_automatic_child():
    metadata = MetadataMapping.from_iterable(
        [
            {"breadcrumb": [], "metadata": {"selected": True}},
            {"breadcrumb": ["properties", "a"], "metadata": {"selected": False}},
            {
                "breadcrumb": ["properties", "a", "properties", "id"],
                "metadata": {"inclusion": "automatic"},
            },
        ],
    )
    prune = compile_pruner(metadata.resolve_selection())
    assert prune is not None
    record = {"a": {"id": 1}, "b": 2}
    prune(record)
    assert record == {"b": 2}


def test_entries_of_required_that_are_no_names_are_kept():
    mask = SelectionMask({(): True, ("properties", "a"): False})
    schema = {"properties": {"a": {}, "b": {}}, "required": ["a", {"type": "string"}, None, "b"]}
    assert prune_schema(schema, mask)["required"] == [{"type": "string"}, None, "b"]
