"""JSONPath: results equal those of jsonpath-ng, which simple paths do not import."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections import OrderedDict
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonpath_ng import Child, JSONPath, Slice
from jsonpath_ng.exceptions import JSONPathError
from jsonpath_ng.ext import parse

import tap_core.parsing.jsonpath as module
from tap_core.exceptions import SingerSDKPendingDeprecationWarning
from tap_core.helpers import jsonpath as helpers_module
from tap_core.parsing.jsonpath import extract_jsonpath
from tests.pagination.peer_pages import (
    DOCUMENTS,
    PATHS,
    SIMPLE_PATHS,
    is_comparable_jsonpath_version,
)

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["a", "b", "a-b", "@type", "A_1", "null", "true", "where", "0", "", "a b"]

needs_comparable_library = pytest.mark.skipif(
    not is_comparable_jsonpath_version(), reason="paths are compared with jsonpath-ng 1.11 to 1.15"
)
WITHOUT_DEADLINE = settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow]
)

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "text", "a"])
documents = st.recursive(
    scalars,
    lambda inside: (
        st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inside, max_size=4)
    ),
    max_leaves=12,
)
simple_steps = st.one_of(
    st.sampled_from(["a", "b", "a-b", "@type", "A_1", "null", "true"]).map(".{}".format),
    st.sampled_from(NAMES).map("['{}']".format),
    st.sampled_from(NAMES).map('["{}"]'.format),
    st.integers(-3, 3).map("[{}]".format),
    st.sampled_from(["[*]", ".*", ".[*]", ".[0]", ".['a']"]),
)
odd_steps = st.sampled_from(
    [".where", "..a", "[0:1]", "[:]", "['a','b']", ".a,b", "['*']", "[ * ]", " ", ".0", "[a]", "."]
)
roots = st.sampled_from(["$", "$", "$", "", "a", "*", "[0]", "['a']", "[*]", "@"])


def paths(steps):
    return st.builds(
        lambda root, following: root + "".join(following), roots, st.lists(steps, max_size=5)
    )


def extract_values(expression: str, document: object) -> list[object]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SingerSDKPendingDeprecationWarning)
        return list(extract_jsonpath(expression, document))


def find_with_library(expression: str, document: object) -> list[object]:
    """Return the values that jsonpath-ng finds; for a final ``[*]`` also a single value."""
    path = parse(expression)
    if not (
        expression.rstrip().endswith("[*]") and isinstance(path, Child) and path.right == Slice()
    ):
        return [match.value for match in path.find(document)]
    parents = [match.value for match in path.left.find(document)]
    return [
        element
        for value in parents
        for element in (value if isinstance(value, list) else [] if value is None else [value])
    ]


def same(ours: object, theirs: object) -> bool:
    """Compare as JSON does: True is not 1."""
    return json.dumps(ours) == json.dumps(theirs)


@needs_comparable_library
@WITHOUT_DEADLINE
@given(paths(simple_steps), documents)
def test_simple_paths_find_what_jsonpath_ng_finds(expression, document):
    try:
        expected = find_with_library(expression, document)
    except JSONPathError:
        with pytest.raises(JSONPathError):
            extract_jsonpath(expression, document)
    else:
        assert same(extract_values(expression, document), expected)


@needs_comparable_library
@WITHOUT_DEADLINE
@given(
    paths(simple_steps | odd_steps) | st.text("$.[]*ab'\"-01@,: ", max_size=8),
    documents,
)
def test_any_path_finds_or_raises_what_jsonpath_ng_does(expression, document):
    try:
        expected = find_with_library(expression, document)
    except Exception as error:  # noqa: BLE001  any error of the library
        with pytest.raises(type(error)):
            extract_values(expression, document)
    else:
        assert same(extract_values(expression, document), expected)


@needs_comparable_library
@pytest.mark.parametrize("expression", PATHS)
def test_listed_paths_find_what_jsonpath_ng_finds(expression):
    for document in DOCUMENTS:
        assert same(
            extract_values(expression, document), find_with_library(expression, document)
        ), document


def test_simple_paths_do_not_import_jsonpath_ng():
    program = (
        "import json, sys, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "from tap_core.parsing.jsonpath import extract_jsonpath\n"
        "import tap_core.pagination\n"
        "for path in json.loads(sys.argv[1]):\n"
        "    for document in json.loads(sys.argv[2]):\n"
        "        list(extract_jsonpath(path, document))\n"
        "print([name for name in ('jsonpath_ng', 'requests') if name in sys.modules])\n"
        "list(extract_jsonpath('$..a', {}))\n"
        "print('jsonpath_ng' in sys.modules)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", program, json.dumps(SIMPLE_PATHS), json.dumps(DOCUMENTS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.split("\n")[:2] == ["[]", "True"]


# A final [*]


@pytest.mark.parametrize(
    "expression, document, expected",
    [
        ("$[*]", {"a": 1}, [{"a": 1}]),
        ("$.data[*]", {"data": {"a": 1}}, [{"a": 1}]),
        ("$.data[*]", {"data": 5}, [5]),
        ("$['data'].[*]", {"data": "text"}, ["text"]),
        ("$[*].data[*]", [{"data": [1, 2]}, {"data": 3}, {"data": None}, {}], [1, 2, 3]),
        ("$..data[*]", {"x": {"data": {"a": 1}}}, [{"a": 1}]),
    ],
)
def test_final_wildcard_of_a_non_array_returns_the_value_with_a_warning(
    expression, document, expected
):
    with pytest.warns(
        SingerSDKPendingDeprecationWarning, match="treated as the only element"
    ) as warnings_caught:
        values = list(extract_jsonpath(expression, document))
    assert values == expected
    assert [warning.filename for warning in warnings_caught] == [__file__]
    assert repr(expression) in str(warnings_caught[0].message)
    assert "matched a non-array value" in str(warnings_caught[0].message)


@pytest.mark.parametrize(
    "expression, document, expected",
    [
        ("$[*]", [1, 2], [1, 2]),
        ("$[*]", None, []),
        ("$.data[*]", {"data": None}, []),
        ("$.data[*]", {}, []),
        ("$.data[*]", {"data": []}, []),
        ("$..data[*]", {"x": {"data": [1, 2]}}, [1, 2]),
        ("$.*", {"a": 1, "b": 2}, [1, 2]),
        ("[*]", {"a": 1, "b": 2}, [1, 2]),
        ("$[*].a", {"x": {"a": 1}, "y": {"a": 2}}, [1, 2]),
    ],
)
def test_other_wildcards_issue_no_warning(expression, document, expected):
    assert list(extract_jsonpath(expression, document)) == expected


# Documents that are not JSON


def test_mappings_and_tuples_are_read_as_objects_and_arrays():
    config = MappingProxyType({"api": OrderedDict(key="k", hosts=("x", "y"))})
    assert list(extract_jsonpath("$.api.key", config)) == ["k"]
    assert list(extract_jsonpath("$.api.hosts[1]", config)) == ["y"]
    assert list(extract_jsonpath("$.*.key", config)) == ["k"]
    assert list(extract_jsonpath("$.api.*[0]", config)) == ["x"]


class KeysOnly:
    def keys(self):
        return ["a"]


class MissingKey:
    def keys(self):
        return ["a", "b"]

    def get(self, name, default):
        return 1 if name == "a" else default


class GetWithoutArguments:
    def get(self):
        return None


@needs_comparable_library
@pytest.mark.parametrize(
    "document", [KeysOnly(), MissingKey(), GetWithoutArguments(), "text", 5, b"x"]
)
@pytest.mark.parametrize("expression", ["$.a", "$.*", "$[*].a", "$[0]"])
def test_incomplete_mapping_is_read_as_jsonpath_ng_reads_it(expression, document):
    assert extract_values(expression, document) == find_with_library(expression, document)


def test_found_values_are_not_copies():
    record = {"id": 1}
    assert next(extract_jsonpath("$.data[*]", {"data": [record]})) is record


# Errors and the cache


@pytest.mark.parametrize("expression", ["", "$.", ".a", "$a", "$.a[", "$.where", "$['a"])
def test_invalid_path_is_named_in_the_error(expression):
    with pytest.raises(JSONPathError) as caught:
        extract_jsonpath(expression, {})
    assert repr(expression) in str(caught.value)


def test_each_expression_is_parsed_once():
    module._parse_path.cache_clear()
    for _ in range(3):
        assert list(extract_jsonpath("$.a", {"a": 1})) == [1]
        assert list(extract_jsonpath("$.a[?(@ > 1)]", {"a": [1, 2]})) == [2]
    assert module._parse_path.cache_info().misses == 2


def test_helpers_module_has_the_functions_that_plugins_import():
    assert helpers_module.extract_jsonpath is extract_jsonpath
    compiled = helpers_module._compile_jsonpath("$.a")
    assert isinstance(compiled, JSONPath)
    assert compiled is helpers_module._compile_jsonpath("$.a")
    assert [match.value for match in compiled.find({"a": 1})] == [1]
