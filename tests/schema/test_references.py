"""Resolution of references in schemas, and their normal form."""

from __future__ import annotations

import json
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tap_core.exceptions import SchemaNotValidError
from tap_core.schema import normalize, resolve_schema_references
from tests.peers import missing_reason, peer_python
from tests.schema.reference_cases import ADDRESS, CASES, outcomes

PEER = peer_python("singer_sdk")
SCRIPT = Path(__file__).with_name("reference_cases.py")

WITHOUT_DEADLINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.peer
@pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk"))
def test_references_are_resolved_as_by_singer_sdk():
    process = subprocess.run(
        [str(PEER), "-W", "ignore", str(SCRIPT), "singer_sdk"],
        check=True,
        capture_output=True,
        text=True,
    )
    ours, theirs = outcomes("tap_core"), json.loads(process.stdout)
    assert ours.pop("circle to the root") == {
        "type": "object",
        "properties": {"n": {"type": "object", "properties": {"n": {}}}},
    }
    assert theirs.pop("circle to the root") == "an error: True"
    assert ours == theirs


RESOLVABLE = [name for name in CASES if not name.startswith(("circle", "nowhere", "unknown"))]


@pytest.mark.parametrize("name", RESOLVABLE)
def test_all_references_are_resolved_in_a_copy(name):
    schema, refs = CASES[name]
    before = deepcopy((schema, refs))
    resolved = resolve_schema_references(schema, refs)
    definitions = {"definitions", "$defs"}
    assert "$ref" not in json.dumps({k: v for k, v in resolved.items() if k not in definitions})
    assert (schema, refs) == before


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("circle")])
def test_recursive_reference_is_rejected(name):
    with pytest.raises(SchemaNotValidError, match="contains itself"):
        resolve_schema_references(*CASES[name])


@pytest.mark.parametrize("name", ["nowhere", "unknown document"])
def test_unresolvable_reference_is_named_in_the_error(name):
    schema, refs = CASES[name]
    with pytest.raises(SchemaNotValidError, match=schema["properties"]["a"]["$ref"]):
        resolve_schema_references(schema, refs)


@pytest.mark.parametrize("value", ["text", [{"type": "object"}], None, 1])
def test_reference_to_a_value_that_is_no_schema_is_an_error(value):
    schema = {"properties": {"a": {"$ref": "#/x"}}, "x": value}
    with pytest.raises(SchemaNotValidError, match="at '#/x' is not a schema"):
        resolve_schema_references(schema, cut_circles=True)


@pytest.mark.parametrize("reference", [5, ["a"], "#/required/a", "#/type/a"])
def test_invalid_reference_is_an_error_that_shows_it(reference):
    schema = {"type": "object", "required": ["a"], "properties": {"a": {"$ref": reference}}}
    with pytest.raises(SchemaNotValidError) as caught:
        resolve_schema_references(schema)
    assert str(reference) in str(caught.value)


@pytest.mark.parametrize(
    ("properties", "name"), [({"name": {"type": "string"}}, "string"), (None, "integer")]
)
def test_properties_next_to_a_reference_are_kept(properties, name):
    schema = {
        "$ref": "#/definitions/named",
        "properties": {"age": {"type": "integer"}, "name": {"type": "integer"}},
        "definitions": {"named": {"properties": properties}},
    }
    resolved = resolve_schema_references(schema)
    assert resolved["properties"] == {"age": {"type": "integer"}, "name": {"type": name}}


def test_required_names_next_to_a_reference_are_kept():
    schema = {
        "$ref": "#/definitions/named",
        "required": ["age", "name"],
        "definitions": {"named": {"required": ["name", "id"]}},
    }
    assert resolve_schema_references(schema)["required"] == ["age", "name", "id"]


def test_unused_recursive_definition_is_ignored():
    schema = {
        "properties": {"a": {"type": "null"}},
        "definitions": {"n": {"$ref": "#/definitions/n"}},
    }
    assert resolve_schema_references(schema)["properties"] == schema["properties"]


def test_each_use_of_a_definition_is_a_copy():
    reference = {"$ref": "#/definitions/address"}
    schema = {"properties": {"a": reference, "b": reference}, "definitions": {"address": ADDRESS}}
    resolved = resolve_schema_references(schema)
    resolved["properties"]["a"]["required"].append("changed")
    resolved["properties"]["a"]["properties"]["street"]["type"] = "changed"
    assert resolved["properties"]["b"] == ADDRESS


def test_references_of_another_document_are_resolved_in_it():
    refs = {"other": {"$ref": "#/x", "x": {"type": "null"}}}
    resolved = resolve_schema_references({"properties": {"a": {"$ref": "other"}}}, refs)
    assert resolved["properties"]["a"]["type"] == "null"


def test_references_to_anchors_and_boolean_schemas_are_resolved():
    schema = {
        "properties": {
            "a": {"$ref": "#here"},
            "b": {"$ref": "#/$defs/anything"},
            "c": {"$ref": "#/$defs/nothing"},
            "d": True,
        },
        "$defs": {
            "x": {"$anchor": "here", "type": "null"},
            "anything": True,
            "nothing": False,
        },
    }
    result = resolve_schema_references(schema)["properties"]
    assert result["a"]["type"] == "null"
    assert [result["b"], result["c"], result["d"]] == [{}, {"not": {}}, True]


def test_references_without_the_first_slash_are_resolved():
    schema = {
        "properties": {"a": {"$ref": "#definitions/word"}, "b": {"$ref": "other#$defs/number"}},
        "definitions": {"word": {"type": "string"}},
    }
    resolved = resolve_schema_references(
        schema, {"other": {"$id": "other", "$defs": {"number": {"type": "number"}}}}
    )
    assert resolved["properties"] == {"a": {"type": "string"}, "b": {"type": "number"}}


def test_property_names_and_data_that_look_like_references_are_kept():
    schema = {
        "properties": {"$ref": {"type": "string"}, "a": {"default": {"$ref": "#/nowhere"}}},
        "enum": [{"$ref": "x"}],
        "const": {"properties": {"$ref": "x"}},
    }
    assert resolve_schema_references(schema) == schema


def test_schema_without_references_does_not_import_referencing():
    script = (
        "import sys; from tap_core.schema import resolve_schema_references as r;"
        "r({'properties': {}}); print('referencing' in sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert process.stdout.strip() == "False"


# The normal form

NAMES = st.sampled_from(["a", "type", "required", "properties"])
TYPES = st.lists(st.sampled_from(["string", "integer", "null"]), min_size=1, unique=True)
LEAVES = st.builds(
    lambda kind, enum: {"type": kind, "enum": enum},
    TYPES,
    st.lists(st.sampled_from(["x", 1, None, 2.5]), unique=True),
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        lambda kind, properties, required, items, options: {
            "type": kind,
            "properties": properties,
            "required": required,
            "items": items,
            "anyOf": options,
        },
        TYPES,
        st.dictionaries(NAMES, inner, max_size=3),
        st.lists(NAMES, unique=True),
        inner,
        st.lists(inner, max_size=2),
    ),
    max_leaves=6,
)


def reorder(value, keyword=None):
    """Return an equal schema with keys, types, enum and required in another order."""
    if isinstance(value, list):
        turned = [reorder(item) for item in value]
        return turned[::-1] if keyword in {"type", "enum", "required"} else turned
    if not isinstance(value, dict):
        return value
    turned = {
        name: {n: reorder(v) for n, v in reversed(inner.items())}
        if name == "properties"
        else reorder(inner, name)
        for name, inner in reversed(value.items())
    }
    if isinstance(kind := turned.get("type"), list) and len(kind) == 1:
        turned["type"] = kind[0]
    if turned.get("required") == []:
        del turned["required"]
    return turned


@WITHOUT_DEADLINE
@given(schema=SCHEMAS)
def test_normal_form_does_not_depend_on_order(schema):
    before = deepcopy(schema)
    ours, theirs = normalize(schema), normalize(reorder(schema))
    assert json.dumps(ours) == json.dumps(theirs)
    assert schema == before


@WITHOUT_DEADLINE
@given(schema=SCHEMAS)
def test_normal_form_is_idempotent(schema):
    once = normalize(schema)
    assert json.dumps(normalize(once)) == json.dumps(once)


@pytest.mark.parametrize(
    "first, other",
    [
        ({"type": "string"}, {"type": ["string", "null"]}),
        ({"type": "object", "required": ["a"]}, {"type": "object"}),
        ({"properties": {"a": {}}}, {"properties": {}}),
        ({"properties": {"type": {"type": "string"}}}, {"properties": {"type": {"type": "null"}}}),
        ({"prefixItems": [{"type": "null"}, {}]}, {"prefixItems": [{}, {"type": "null"}]}),
        ({"anyOf": [{"type": "null"}, {}]}, {"anyOf": [{}, {"type": "null"}]}),
        ({"enum": [1]}, {"enum": ["1"]}),
        ({"const": ["a", "b"]}, {"const": ["b", "a"]}),
    ],
)
def test_different_schemas_have_different_normal_forms(first, other):
    assert normalize(first) != normalize(other)


def test_properties_named_like_keywords_are_not_reordered():
    schema = {"properties": {"required": {"type": "string"}, "type": {"type": "array"}}}
    assert normalize(schema) == {
        "properties": {"required": {"type": ["string"]}, "type": {"type": ["array"]}},
    }
