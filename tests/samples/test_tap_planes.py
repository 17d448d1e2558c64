"""The GraphQL sample: every plane once, pagination, and errors with status 200."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests

from tests.samples.cut_flights import read_table
from tests.samples.running import Run, run, service

SAMPLE = "tap_planes"


@pytest.fixture(scope="module")
def planes_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    with service(SAMPLE) as address:
        config = {"api_url": address, "token": "t-1"}
        return run(SAMPLE, tmp_path_factory.mktemp("planes"), config)


def test_every_plane_is_read_once(planes_run: Run) -> None:
    assert planes_run.code == 0, planes_run.log
    rows = read_table("planes")
    assert [r["tailNumber"] for r in planes_run.records("planes")] == [
        row["tailnum"] for row in rows
    ]


def test_record_has_the_fields_of_the_query(planes_run: Run) -> None:
    assert planes_run.records("planes")[0] == {
        "tailNumber": "N10156",
        "year": 2004,
        "model": "EMB-145XR",
        "seats": 55,
        "manufacturer": {"name": "EMBRAER"},
        "engines": {"kind": "Turbo-fan", "count": 2},
    }


def test_pagination_follows_the_cursor_to_the_last_page(planes_run: Run) -> None:
    pages = -(-len(read_table("planes")) // 500)
    request_lines = [
        line for line in planes_run.log.splitlines() if "http_request_duration" in line
    ]
    assert len(request_lines) == pages


def test_service_returns_only_requested_fields() -> None:
    with service(SAMPLE) as address:
        document = requests.post(
            f"{address}/graphql",
            json={"query": "query { planes { edges { node { seats } } } }", "variables": None},
            headers={"Authorization": "Bearer t-1"},
            timeout=30,
        ).json()
    assert document["data"]["planes"]["edges"][:2] == [
        {"node": {"seats": 55}},
        {"node": {"seats": 182}},
    ]


def test_unknown_field_fails_the_run_with_the_servers_message(tmp_path: Path) -> None:
    (tmp_path / "wrong_query.py").write_text(
        "from tap_planes.streams import Planes\n"
        "from tap_planes.tap import TapPlanes\n"
        "Planes.query = 'query { planes { edges { node { wings } } } }'\n"
        "TapPlanes.cli()\n"
    )
    with service(SAMPLE) as address:
        result = run(
            SAMPLE, tmp_path, {"api_url": address, "token": "t-1"}, program="wrong_query.py"
        )
    assert result.code == 1
    assert "There is no field 'wings'" in result.log
