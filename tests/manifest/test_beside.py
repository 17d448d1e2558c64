"""Whole manifests: the same requests, records and positions as airbyte-cdk makes of them."""

from __future__ import annotations

import pytest

from tests.manifest.beside.running import CASES, by_airbyte_cdk, by_us, expected
from tests.peers import missing_reason


@pytest.mark.parametrize("name", CASES)
def test_a_manifest_does_what_it_does_under_airbyte_cdk(name: str):
    """Requests as a set: parents are asked once here. What is expected was recorded there."""
    told, known = by_us(CASES[name]), expected(name)
    assert told["requests"] == known["requests"]
    assert told["records"] == known["records"]
    assert told["states"] == known["states"]


@pytest.mark.peer
@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
def test_what_was_recorded_is_what_airbyte_cdk_does(name: str):
    if CASES[name].peer is None:
        pytest.skip(missing_reason("airbyte_cdk_6" if CASES[name].components else "airbyte_cdk"))
    assert by_airbyte_cdk(CASES[name]) == expected(name)
