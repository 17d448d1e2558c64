"""Published manifests of connectors: requests, records and states equal those of airbyte-cdk.

They are compared for a first run and for a second one that starts with the states of the first.
"""

from __future__ import annotations

import pytest

from tests.manifest.published import run_airbyte_cdk, run_tap_core
from tests.peers import missing_reason, peer_python

SOURCES = peer_python("airbyte_sources")
CDK = peer_python("airbyte_cdk") or peer_python("pyairbyte")  # which has it, too

NAMES = (
    *("freshsales", "k6_cloud", "launchdarkly", "ringcentral", "statuspage", "timely", "toggl"),
    "tempo",
)


@pytest.mark.peer
@pytest.mark.thorough
@pytest.mark.skipif(SOURCES is None, reason=missing_reason("airbyte_sources"))
@pytest.mark.skipif(CDK is None, reason=missing_reason("airbyte_cdk"))
@pytest.mark.parametrize("name", NAMES)
def test_published_manifest_has_the_results_of_airbyte_cdk(name: str):
    assert SOURCES is not None
    assert CDK is not None
    [manifest] = SOURCES.parents[1].glob(f"lib/python*/site-packages/source_{name}/manifest.yaml")
    ours, theirs = run_tap_core(manifest), run_airbyte_cdk(manifest, CDK)
    assert all(result.requests and result.records and result.code == 0 for result in ours)
    assert ours == theirs
