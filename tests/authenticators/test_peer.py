"""Headers, parameters and bodies of every authenticator equal those of singer_sdk."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.authenticators.peer_logins import ANSWERS, FIXED, FOR_STREAM, SHOWN, outcomes
from tests.peers import missing_reason, peer_python

PEER = peer_python("singer_sdk")
SCRIPT = Path(__file__).with_name("peer_logins.py")
OURS_ALONE = {"attach", "patience"}

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk")),
]


@pytest.fixture(scope="module")
def ours() -> dict[str, Any]:
    return dict(json.loads(json.dumps(outcomes("tap_core"))))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory) -> dict[str, Any]:
    process = subprocess.run(
        [str(PEER), "-W", "ignore", str(SCRIPT), "singer_sdk"],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path_factory.mktemp("peer"),
    )
    return dict(json.loads(process.stdout))


@pytest.mark.parametrize("title", FIXED)
def test_authenticated_request_equals_that_of_singer_sdk(ours, theirs, title):
    assert ours["fixed"][title] == theirs["fixed"][title]


@pytest.mark.parametrize("name", FOR_STREAM)
def test_create_for_stream_equals_that_of_singer_sdk(ours, theirs, name):
    assert ours["for stream"][name] == theirs["for stream"][name]


@pytest.mark.parametrize("default", [None, 30])
@pytest.mark.parametrize("title", ANSWERS)
def test_token_request_and_cached_token_equal_those_of_singer_sdk(ours, theirs, title, default):
    assert ours["oauth"][f"{title}, {default}"] == theirs["oauth"][f"{title}, {default}"]


@pytest.mark.parametrize("case", ["jwt", "refused", "warned"])
def test_claims_refusals_and_warnings_equal_those_of_singer_sdk(ours, theirs, case):
    assert ours[case] == theirs[case]


@pytest.mark.parametrize("name", SHOWN)
def test_every_class_has_the_members_of_singer_sdk(ours, theirs, name):
    members = {key: value for key, value in ours["shape"][name].items() if key not in OURS_ALONE}
    assert members == theirs["shape"][name]


def test_every_public_class_of_singer_sdk_exists(ours, theirs):
    assert theirs["public"] == sorted(SHOWN)
    assert set(ours["public"]) - set(theirs["public"]) == {"AccessTokenError", "RetryPolicy"}
