"""Schemas of the same documents equal those of singer_sdk, except for listed differences."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.peers import missing_reason, peer_python
from tests.schema.source_cases import outcomes

PEER = peer_python("singer_sdk")
SCRIPT = Path(__file__).with_name("source_cases.py")

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk")),
]

BOUND = "a boolean exclusiveMinimum is invalid JSON Schema; it becomes a number"
X_NULLABLE = "x-nullable is supported, `file` is a string"
YAML = "dates, `no` and `yes` in YAML are strings"
ALL_OF = "allOf keeps required, null, its sibling keywords, and merges equal properties"
CHOICE = "an optional property accepts null, and exactly one choice does"
ALIKE = "choices that differ only in enum become anyOf: with oneOf no record would be valid"
UNTYPED = "schemas with properties, items or an enum get a type"
MAP = "value schemas of maps are normalized"
FILES = "references between files are resolved"
CONST = "a nullable const accepts null"
TRUE = "the schemas true and false are schemas"

DELIBERATE = {
    "shop_v2.json Customer": X_NULLABLE,
    "shop_v2.json Company": ALL_OF,
    "shop_v2.json List<Customer>": X_NULLABLE,
    "shop_v30.yaml Money": BOUND,
    "shop_v30.yaml Base": YAML,
    "shop_v30.yaml Order": ALL_OF,
    "shop_v30.yaml Simple": CHOICE,
    "shop_v30.yaml Wrapped": ALL_OF,
    "shop_v30.yaml Pet": ALIKE,
    "shop_v30.yaml Owner": CHOICE,
    "shop_v30.yaml Untyped": UNTYPED,
    "shop_v30.yaml Map": MAP,
    "shop_v30.yaml Outside": FILES,
    "shop_v31.json Choice": CHOICE,
    "shop_v31.json Anything": TRUE,
    "shop_v31.json Item": CONST,
    "files users": FILES,
}
"""The cases with a deliberately different schema, with the reason."""


@pytest.fixture(scope="module")
def schemas_of_both():
    process = subprocess.run(
        [str(PEER), "-W", "ignore", str(SCRIPT), "singer_sdk"],
        check=True,
        capture_output=True,
        text=True,
    )
    return outcomes("tap_core"), json.loads(process.stdout)


def is_deliberate(case):
    return case.removesuffix(" ()").removesuffix(" ('id',)") in DELIBERATE


def test_all_other_schemas_equal_those_of_singer_sdk(schemas_of_both):
    ours, theirs = schemas_of_both
    same = [case for case in ours if not is_deliberate(case)]
    assert {case: ours[case] for case in same} == {case: theirs[case] for case in same}
    assert len(same) > 20


def test_every_listed_difference_exists(schemas_of_both):
    ours, theirs = schemas_of_both
    assert [case for case in ours if is_deliberate(case) and ours[case] == theirs[case]] == []


@pytest.mark.parametrize(
    "case, path",
    [
        ("shop_v2.json Company ()", ("required",)),
        ("shop_v30.yaml Wrapped ()", ("properties", "kind", "type")),
        ("shop_v30.yaml Simple ()", ("properties", "either", "oneOf")),
        ("shop_v31.json Choice ()", ("properties", "what")),
    ],
)
def test_no_information_of_singer_sdks_schema_is_lost(schemas_of_both, case, path):
    ours, theirs = (schemas[case] for schemas in schemas_of_both)
    for step in path:
        ours, theirs = ours[step], theirs[step]
    if isinstance(ours, list):
        known = theirs if isinstance(theirs, list) else [theirs]
        assert all(value in ours for value in known)
    else:
        assert theirs["anyOf"] == ours["anyOf"][:-1]  # ours has one more choice: null
