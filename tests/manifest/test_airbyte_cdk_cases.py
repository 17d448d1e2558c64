"""Complete manifests: requests, records and positions equal those of airbyte-cdk."""

from __future__ import annotations

import pytest

from tests.manifest.airbyte_cdk_cases.cases import (
    CASES,
    load_expected,
    run_airbyte_cdk,
    run_tap_core,
)
from tests.peers import missing_reason


@pytest.mark.parametrize("name", CASES)
def test_manifest_has_the_recorded_result_of_airbyte_cdk(name: str):
    """Requests are compared as a set, because tap_core requests parents only once."""
    result, recorded = run_tap_core(CASES[name]), load_expected(name)
    assert result["requests"] == recorded["requests"]
    assert result["records"] == recorded["records"]
    assert result["states"] == recorded["states"]


@pytest.mark.peer
@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
def test_recorded_results_equal_those_of_the_installed_airbyte_cdk(name: str):
    if CASES[name].peer is None:
        pytest.skip(missing_reason("airbyte_cdk_6" if CASES[name].components else "airbyte_cdk"))
    assert run_airbyte_cdk(CASES[name]) == load_expected(name)
