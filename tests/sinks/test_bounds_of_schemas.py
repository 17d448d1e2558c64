"""Untrusted schemas: references stay in the document, patterns have a time limit."""

from __future__ import annotations

import json
import re
import sys
import tracemalloc
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tap_core.config.validation import validate_config
from tap_core.exceptions import InvalidJSONSchema, InvalidRecord, LimitExceededError
from tap_core.limits.regex import MATCH_SECONDS, MATCH_SECONDS_TOTAL, Pattern, compile_pattern
from tap_core.schema.validators import SCHEMA_SECONDS, get_validator_class, has_unique_items
from tap_core.sinks.validation import JSONSchemaValidator
from tests.http.server import Reply, serving

BACKTRACKS = "(a|a)*$"
LONG = "a" * 40 + "!"


def assert_refused(schema: Any, value: Any) -> None:
    for validate_formats in (False, True):
        check = JSONSchemaValidator(
            {"properties": {"x": schema}}, validate_formats=validate_formats
        )
        check.validate({"x": value})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "URL/a"},
        {"$dynamicRef": "URL/a"},
        {"$id": "URL/b", "$ref": "c"},
        {"$id": "URL/b", "properties": {"y": {"$ref": "c.json"}}},
        {"$schema": "URL/dialect", "$id": "URL/z", "$ref": "URL/a"},
        {"$schema": "http://json-schema.org/draft-04/schema#", "$ref": "URL/a"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "allOf": [{"$ref": "URL/a"}]},
        {"$schema": "https://json-schema.org/draft/2019-09/schema", "$ref": "URL/a"},
        {"unevaluatedProperties": False, "allOf": [{"$ref": "URL/a"}]},
        {"not": {"$ref": "FILE"}},
        {"$ref": "FILE"},
        {"$ref": "#/nothing"},
    ],
)
def test_reference_outside_the_schema_is_rejected(tmp_path: Path, schema: Any):
    """SEC11: a reference to an address or a file is not resolved."""
    (tmp_path / "secret.json").write_text('{"const": "LOCAL-SECRET"}')
    with serving() as server:
        server.answers(Reply({"const": "X"}))
        text = json.dumps(schema).replace("URL", server.url)
        outside_reference = json.loads(text.replace("FILE", (tmp_path / "secret.json").as_uri()))
        value = {"y": 1}
        with pytest.raises(InvalidJSONSchema, match="other documents are not resolved") as caught:
            assert_refused(outside_reference, value)
        with pytest.raises(InvalidJSONSchema):
            validate_config({"x": value}, {"properties": {"x": outside_reference}})
        assert server.requests == []
    assert "LOCAL-SECRET" not in str(caught.value)


def test_reference_within_the_schema_is_resolved():
    schema = {"$defs": {"a": {"type": "integer"}}, "properties": {"x": {"$ref": "#/$defs/a"}}}
    JSONSchemaValidator(schema).validate({"x": 1})
    with pytest.raises(InvalidRecord, match="is not of type 'integer'"):
        JSONSchemaValidator(schema).validate({"x": "1"})


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": BACKTRACKS}, LONG),
        ({"patternProperties": {BACKTRACKS: {}}}, {LONG: 1}),
        ({"patternProperties": {BACKTRACKS: {}}, "additionalProperties": False}, {LONG: 1}),
        ({"patternProperties": {BACKTRACKS: {}}, "unevaluatedProperties": False}, {LONG: 1}),
        ({"propertyNames": {"pattern": BACKTRACKS}}, {LONG: 1}),
        ({"not": {"pattern": BACKTRACKS}}, LONG),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "pattern": BACKTRACKS}, LONG),
        (
            {
                "$schema": "https://json-schema.org/draft/2019-09/schema",
                "patternProperties": {BACKTRACKS: {}},
                "unevaluatedProperties": False,
            },
            {LONG: 1},
        ),
    ],
)
def test_pattern_with_catastrophic_backtracking_is_stopped(
    schema: Any, value: Any, monkeypatch: pytest.MonkeyPatch
):
    """SEC14: a pattern that backtracks without end is stopped."""
    monkeypatch.setitem(vars(MATCH_SECONDS), "value", 0.05)
    with pytest.raises(LimitExceededError, match=r"\(a\|a\)\*\$.*raise TAP_CORE_PATTERN_SECONDS"):
        assert_refused(schema, value)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("x" * 100_001, "may have 100,000 characters"),
        ("((a{1000}){1000}){1000}", "lower counts"),
        ("(?:" * 40 + "a|b" + ")+" * 40, "lower counts"),
        ("(?#[)" + "(" * 40 + "a" + "){1,}" * 40 + "(?#])", "lower counts"),
        ("(?x)" + "(" * 40 + "a" + ") +" * 40, "lower counts"),
        ("(?i)" + "[\u0000-\uffff]" * 1_001, "may have 1,000 sets"),
        ("[" + "".join(f"{chr(n)}-\uffff" for n in range(256, 1_300)) + "]", "may have 1,000 sets"),
        ("(" * 20_000 + ")" * 20_000, "nested too deeply"),
    ],
)
def test_pattern_too_large_to_compile_is_rejected(pattern: str, message: str):
    """SEC14: a pattern that is too large to compile is refused."""
    with pytest.raises(LimitExceededError, match=message):
        assert_refused({"pattern": pattern}, "a")
    schema = {"$defs": {"far": {"pattern": "x" * 100_001}}}
    with pytest.raises(LimitExceededError):
        JSONSchemaValidator(schema)


def test_repeat_of_neighbouring_groups_is_not_too_large_to_compile():
    """SEC14: only repeats within each other multiply the size of a pattern."""
    assert compile_pattern("(a|b)+(?:c[)+]+d)+" * 40).match("abcd" * 40) is None
    assert compile_pattern("(?:" * 8 + "a|b" + ")+" * 8).match("ab" * 40)


def test_impossible_count_is_an_invalid_pattern():
    with pytest.raises(re.error, match="repetition number is too large"):
        compile_pattern("a{99999999999999999}")


def test_long_pattern_without_a_repeat_is_stopped(monkeypatch: pytest.MonkeyPatch):
    """SEC14: each position of the text may need as many steps as the pattern has parts."""
    monkeypatch.setitem(vars(MATCH_SECONDS), "value", 0.05)
    with pytest.raises(LimitExceededError, match="raise TAP_CORE_PATTERN_SECONDS"):
        compile_pattern("[ab]" * 900 + "[cd]").search("a" * 100_000)


def test_compiling_slow_patterns_is_limited_in_all(monkeypatch: pytest.MonkeyPatch):
    """SEC14: a schema may have many patterns, each of which takes long to compile."""
    monkeypatch.setitem(vars(MATCH_SECONDS_TOTAL), "value", 0.02)
    slow = "(?i)" + "[\u0000-\uffff]" * 10
    with pytest.raises(LimitExceededError, match="raise TAP_CORE_PATTERN_SECONDS_TOTAL"):
        assert_refused({"allOf": [{"pattern": f"{slow}{number}"} for number in range(3)]}, "a")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from([0.0, 1.0, 0.5, "", "1"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=6,
)


@settings(max_examples=400, deadline=None)
@given(st.lists(JSON_VALUES, max_size=5))
@example([1, True])
@example([[0], [False]])
@example([{"a": 1}, {"a": Decimal("1.0")}])
@example([{"a": [1], "b": 0}, {"b": -0.0, "a": [Decimal("1e0")]}])
@example([["a", "b"], ["ab"], [["a"], "b"], [], [[]], {}, [{}], "[]", "\ud800", [0.1]])
@example([10**400, 10**400 + 1, Decimal("1e999999"), 1e308])
def test_items_are_unique_if_jsonschema_says_so(items: list[Any]):
    assert has_unique_items(items) is Draft202012Validator({"uniqueItems": True}).is_valid(items)


def test_comparing_many_items_takes_less_than_quadratic_time():
    """SEC13: jsonschema compares every object with every other, which takes minutes here."""
    items = [{"id": number, "tags": [number % 7]} for number in range(6_000)]
    same_hash = [number * sys.hash_info.modulus for number in range(6_000)]
    check = JSONSchemaValidator({"properties": {"x": {"uniqueItems": True}}})
    check.validate({"x": items})
    check.validate({"x": same_hash})
    for repeated in ([*items, {"tags": [0], "id": 0.0}], [*same_hash, 0.0]):
        with pytest.raises(InvalidRecord, match="has non-unique elements"):
            check.validate({"x": repeated})


def nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("schema", [{"uniqueItems": True}, {"$ref": "#/$defs/list"}])
def test_comparing_large_items_ends_at_a_time_limit(schema: Any, monkeypatch: pytest.MonkeyPatch):
    """SEC13: the sorted copies of 10,000 lists with 400 levels took two minutes and a gigabyte."""
    monkeypatch.setitem(vars(SCHEMA_SECONDS), "value", 0.02)
    definitions = {"list": {"uniqueItems": True}}
    check = JSONSchemaValidator({"properties": {"x": schema}, "$defs": definitions})
    with pytest.raises(LimitExceededError, match="TAP_CORE_SCHEMA_SECONDS"):
        check.validate({"x": [nested(number, 400) for number in range(1_000)]})


def test_comparing_nested_items_takes_no_memory_per_level():
    """SEC13: a copy of each item would have 80 MB here."""
    same = nested(0, 400)
    items = [[same, number] for number in range(200)]
    deep = [nested(number, 10_000) for number in range(2)]
    tracemalloc.start()
    try:
        assert has_unique_items(items)
        assert has_unique_items(deep)
        assert not has_unique_items([*items, [same, 199.0]])
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


PIECES = [
    *("a", "b", ".", r"\d", r"\w", "[ab]", "[^a]", "(a)", "(a|b)", "^", "$", r"\b", "a{e}", "é"),
    *("[[:alpha:]]", "{", "{2}", "a{,2}", "a{1,2}", "*", "+", "?", "*?", "|", "(?=a)", "(?!b)"),
    *("(?<=a)", r"\{", r"\\", "x{}", r"\s", "-", r"\N{DASH}", r"\Z", "&&", "ß", r"\1", "\n"),
    *(r"\W", r"\S", r"[\w-]", r"[^\W\d]", r"[\S1]", r"(?#[)"),
]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=7), st.text("aab1e{},[:]lphé\n -ß", max_size=9))
def test_both_regex_engines_find_the_same_match(pieces: list[str], text: str):
    """Short texts are matched by `re`, long ones by the interruptible `regex` package."""
    try:
        match = re.search("".join(pieces), text)
    except re.error:
        return
    timed = Pattern("".join(pieces))
    assert compile_pattern(timed.text).search(text) == match or match is not None
    timed._longest = -1
    other = timed.search(text)
    assert (match and match.span()) == (other and other.span())


@pytest.mark.parametrize("part", [r"\w", r"\W", r"\s", r"\S", r"\b.", r"\B.", r"[\w-]", r"[^\W\d]"])
def test_word_and_space_characters_are_those_of_re_in_any_text(part: str):
    """For the package ``regex``, vowel signs also belong to words, and U+001C is no space."""
    pattern = Pattern(f"(?:{part})+")  # too many steps for `re`
    for text in ("a", "_", "²", "e\u0301", "हि", "\u200c", "\x1c", "\u2003", "-", "1 b"):
        match, expected = pattern.search(text), re.search(pattern.text, text)
        assert (match and match.span()) == (expected and expected.span()), text


def test_references_that_multiply_end_at_a_time_limit(monkeypatch: pytest.MonkeyPatch):
    """SEC13: thirty definitions, each with ten references to the next, are 10^30 subschemas."""
    monkeypatch.setitem(vars(SCHEMA_SECONDS), "value", 0.2)
    definitions: dict[str, Any] = {
        f"x{level}": {"allOf": [{"$ref": f"#/definitions/x{level + 1}"}] * 10}
        for level in range(30)
    }
    definitions["x30"] = {"type": "integer"}
    check = JSONSchemaValidator(
        {"properties": {"a": {"$ref": "#/definitions/x0"}}, "definitions": definitions}
    )
    for _ in range(2):
        with pytest.raises(LimitExceededError, match="TAP_CORE_SCHEMA_SECONDS"):
            check.validate({"a": 1})
    check.validate({"b": 1})


STRINGS: dict[str, Any] = {
    "anyOf": [{"type": "string", "minLength": length} for length in range(2, 500)]
}
VARIED: dict[str, Any] = {"anyOf": [*STRINGS["anyOf"], {"type": "integer"}]}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": VARIED}, [1] * 100_000),
        ({"additionalProperties": VARIED}, dict.fromkeys(map(str, range(100_000)), 1)),
        (
            {"items": {"properties": {f"p{number}": {"maxItems": 1} for number in range(500)}}},
            [{"p0": 1}] * 100_000,
        ),
        (
            {"anyOf": [{"items": {"maximum": most}, "uniqueItems": True} for most in range(500)]},
            [0] * 100_000,
        ),
    ],
)
def test_check_of_many_values_by_many_schemas_ends_at_a_time_limit(
    schema: Any, value: Any, monkeypatch: pytest.MonkeyPatch
):
    """SEC13: the compiled check of a line of numbers by 25,000 branches would take hours."""
    monkeypatch.setitem(vars(SCHEMA_SECONDS), "value", 0.1)
    check = JSONSchemaValidator({"properties": {"a": schema}})
    check.validate({"a": type(value)()})
    with pytest.raises(LimitExceededError, match=r"longer than 0\.05 seconds"):
        check.validate({"a": value})


def test_errors_of_the_validator_class_are_those_of_jsonschema():
    schema = {
        "patternProperties": {"^a+$": {"type": "integer"}},
        "properties": {"p": {"pattern": "^x+$"}},
        "additionalProperties": False,
    }
    value = {"aa": "1", "p": "y", "z": 1}
    ours = sorted(error.message for error in get_validator_class()(schema).iter_errors(value))
    theirs = sorted(error.message for error in Draft202012Validator(schema).iter_errors(value))
    assert ours == theirs
