"""Catalogs, standard metadata and selection are those of the real singer_sdk."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.catalog_cases import BREADCRUMBS, RECORD, SCHEMA, outcomes
from tests.peers import missing_reason, peer_python

PEER = peer_python("singer_sdk")
SCRIPT = Path(__file__).with_name("catalog_cases.py")

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk")),
]


def random_masks(count: int) -> list[Any]:
    dice = random.Random(7)
    return [
        [
            [[list(b), dice.random() < 0.6] for b in dice.sample(BREADCRUMBS, dice.randrange(7))],
            SCHEMA,
            RECORD,
        ]
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def outcomes_of_both() -> tuple[dict[str, Any], dict[str, Any]]:
    masks = random_masks(500)
    process = subprocess.run(
        [str(PEER), "-W", "ignore", str(SCRIPT), "singer_sdk"],
        input=json.dumps(masks),
        check=True,
        capture_output=True,
        text=True,
    )
    return outcomes("tap_core", masks), json.loads(process.stdout)


@pytest.mark.parametrize("part, least", [("standard", 700), ("selected", 1000), ("masked", 500)])
def test_metadata_and_selections_are_those_of_singer_sdk(outcomes_of_both, part, least):
    ours, theirs = outcomes_of_both[0][part], outcomes_of_both[1][part]
    assert len(theirs) >= least
    assert [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]] == []


def test_catalogs_are_read_and_written_as_by_singer_sdk(outcomes_of_both):
    ours, theirs = (outcome["catalogs"] for outcome in outcomes_of_both)
    assert ours == theirs


def test_catalog_key_order_is_that_of_singer_sdk(outcomes_of_both):
    ours, theirs = (json.dumps(outcome["catalogs"]["read"]) for outcome in outcomes_of_both)
    assert ours == theirs


def test_standard_metadata_key_order_is_that_of_singer_sdk(outcomes_of_both):
    assert json.dumps(outcomes_of_both[0]["standard"]) == json.dumps(
        outcomes_of_both[1]["standard"]
    )
