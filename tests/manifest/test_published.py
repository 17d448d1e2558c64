"""Published manifests of others: the same requests, records and states as under airbyte-cdk.

In a first run, and in a second one that begins with the states of the first.
"""

from __future__ import annotations

import pytest

from tests.manifest.published import by_airbyte_cdk, by_us
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
def test_a_published_manifest_does_what_it_does_under_airbyte_cdk(name: str):
    assert SOURCES is not None
    assert CDK is not None
    [manifest] = SOURCES.parents[1].glob(f"lib/python*/site-packages/source_{name}/manifest.yaml")
    ours, theirs = by_us(manifest), by_airbyte_cdk(manifest, CDK)
    assert all(one.requests and one.records and one.code == 0 for one in ours)
    assert ours == theirs
