"""Paths walked here give what jsonpath-ng gives, and do not load it."""

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
from tap_core.helpers import jsonpath as face
from tap_core.parsing.jsonpath import extract_jsonpath
from tests.pagination.peer_pages import DOCUMENTS, EVERYDAY, PATHS, has_the_meaning

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["a", "b", "a-b", "@type", "A_1", "null", "true", "where", "0", "", "a b"]

against_the_library = pytest.mark.skipif(
    not has_the_meaning(), reason="paths are compared with jsonpath-ng 1.11 to 1.15"
)
on_any_machine = settings(
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
    return st.builds(lambda root, rest: root + "".join(rest), roots, st.lists(steps, max_size=5))


def found(expression: str, document: object) -> list[object]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SingerSDKPendingDeprecationWarning)
        return list(extract_jsonpath(expression, document))


def by_library(expression: str, document: object) -> list[object]:
    """Say what jsonpath-ng finds; at a last ``[*]``, the elements or the single value."""
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


@against_the_library
@on_any_machine
@given(paths(simple_steps), documents)
def test_simple_paths_give_what_the_library_gives(expression, document):
    try:
        expected = by_library(expression, document)
    except JSONPathError:
        with pytest.raises(JSONPathError):
            extract_jsonpath(expression, document)
    else:
        assert same(found(expression, document), expected)


@against_the_library
@on_any_machine
@given(
    paths(simple_steps | odd_steps) | st.text("$.[]*ab'\"-01@,: ", max_size=8),
    documents,
)
def test_whatever_stands_in_a_path_the_library_agrees(expression, document):
    try:
        expected = by_library(expression, document)
    except Exception as error:  # noqa: BLE001  whatever the library raises
        with pytest.raises(type(error)):
            found(expression, document)
    else:
        assert same(found(expression, document), expected)


@against_the_library
@pytest.mark.parametrize("expression", PATHS)
def test_every_path_of_the_list_gives_what_the_library_gives(expression):
    for document in DOCUMENTS:
        assert same(found(expression, document), by_library(expression, document)), document


def test_everyday_paths_do_not_load_the_library():
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
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(EVERYDAY), json.dumps(DOCUMENTS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split("\n")[:2] == ["[]", "True"]


# What a last [*] means


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
def test_a_single_value_in_the_place_of_an_array_is_its_only_element(
    expression, document, expected
):
    with pytest.warns(
        SingerSDKPendingDeprecationWarning, match="treated as the only element"
    ) as got:
        values = list(extract_jsonpath(expression, document))
    assert values == expected
    assert [warning.filename for warning in got] == [__file__]
    assert repr(expression) in str(got[0].message)
    assert "matched a non-array value" in str(got[0].message)


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
def test_all_else_says_nothing(expression, document, expected):
    assert list(extract_jsonpath(expression, document)) == expected


# What is read besides JSON


def test_whatever_can_be_asked_for_a_member_is_an_object():
    config = MappingProxyType({"api": OrderedDict(key="k", hosts=("x", "y"))})
    assert list(extract_jsonpath("$.api.key", config)) == ["k"]
    assert list(extract_jsonpath("$.api.hosts[1]", config)) == ["y"]
    assert list(extract_jsonpath("$.*.key", config)) == ["k"]
    assert list(extract_jsonpath("$.api.*[0]", config)) == ["x"]


class KeysOnly:
    def keys(self):
        return ["a"]


class OneKeyLess:
    def keys(self):
        return ["a", "b"]

    def get(self, name, default):
        return 1 if name == "a" else default


class Unaskable:
    def get(self):
        return None


@against_the_library
@pytest.mark.parametrize("document", [KeysOnly(), OneKeyLess(), Unaskable(), "text", 5, b"x"])
@pytest.mark.parametrize("expression", ["$.a", "$.*", "$[*].a", "$[0]"])
def test_what_is_only_half_an_object_is_read_as_the_library_reads_it(expression, document):
    assert found(expression, document) == by_library(expression, document)


def test_the_values_are_those_of_the_document_itself():
    record = {"id": 1}
    assert next(extract_jsonpath("$.data[*]", {"data": [record]})) is record


# Errors and the cache


@pytest.mark.parametrize("expression", ["", "$.", ".a", "$a", "$.a[", "$.where", "$['a"])
def test_a_text_that_is_no_path_is_an_error_that_names_it(expression):
    with pytest.raises(JSONPathError) as caught:
        extract_jsonpath(expression, {})
    assert repr(expression) in str(caught.value)


def test_an_expression_is_decided_on_once():
    module._parse_path.cache_clear()
    for _ in range(3):
        assert list(extract_jsonpath("$.a", {"a": 1})) == [1]
        assert list(extract_jsonpath("$.a[?(@ > 1)]", {"a": [1, 2]})) == [2]
    assert module._parse_path.cache_info().misses == 2


def test_the_face_shows_the_functions_that_plugins_import():
    assert face.extract_jsonpath is extract_jsonpath
    compiled = face._compile_jsonpath("$.a")
    assert isinstance(compiled, JSONPath)
    assert compiled is face._compile_jsonpath("$.a")
    assert [match.value for match in compiled.find({"a": 1})] == [1]
