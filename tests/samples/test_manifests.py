"""The sample manifests send the requests of Airbyte's guide to incremental sync.

The command runs in this process, and the server is that of the samples. Where the guide shows a
request, the request is compared, not its result.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tap_core.manifest.cli import main

SAMPLES = Path(__file__).resolve().parents[2] / "samples" / "manifests"
LAST = "2023-04-15T07:30:58Z"
ARTICLES = {"api_key": "k-1", "start_date": "2023-04-09T00:00:00Z"}
FEED = {"board": "spark", "start_date": "2023-03-01"}
RATES = {"base": "EUR", "start_date": "2024-02-27", "end_date": "2024-03-02"}
MESSAGES = {
    "api_key": "k-1",
    "start_date": "2023-01-01T00:00:00Z",
    "end_date": "2023-03-10T00:00:00Z",
}


def script(name: str) -> Any:
    """Import one of the scripts in the folder of the manifests."""
    spec = importlib.util.spec_from_file_location(f"sample_{name}", SAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass
class Reader:
    """Runs syncs of a tap, each with the states of the previous one."""

    is_declared: bool
    """True for the manifest, False for its version in Python."""
    api: Any
    url: str
    folder: Path
    output: pytest.CaptureFixture[bytes]
    states: list[Any] = field(default_factory=list)

    def read(self, sample: str, stream: str, config: Any, *flags: str) -> list[dict[str, Any]]:
        """Sync a stream; return its records. ``api.requests`` has the requests of this sync."""
        self.api.requests.clear()
        stream_document = {"name": stream, "json_schema": {}}
        entry = {
            "stream": stream_document,
            "sync_mode": "incremental",
            "destination_sync_mode": "append",
        }
        files = {
            "config": {"api_url": self.url, **config},
            "catalog": {"streams": [entry]},
            "state": self.states,
        }
        manifest = ["--manifest", str(SAMPLES / sample / "manifest.yaml")]
        arguments = ["read", *(manifest if self.is_declared else []), *flags]
        for name, content in files.items():
            (self.folder / name).write_text(json.dumps(content))
            arguments += [f"--{name}", str(self.folder / name)]
        code = self.code(arguments)
        messages = [json.loads(line) for line in self.output.readouterr().out.splitlines()]
        assert code == 0, messages
        self.states = [message["state"] for message in messages if message["type"] == "STATE"][-1:]
        return [message["record"]["data"] for message in messages if message["type"] == "RECORD"]

    def code(self, arguments: list[str]) -> Any:
        try:
            return (
                main(arguments) if self.is_declared else script("in_python").TapPress.cli(arguments)
            )
        except SystemExit as ended:
            return ended.code or 0

    @property
    def queries(self) -> list[dict[str, str]]:
        return [request.query for request in self.api.requests]


@pytest.fixture(params=[True, False], ids=["manifest", "Python"])
def reader(
    request: pytest.FixtureRequest, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> Iterator[Reader]:
    served = script("serve")
    api = served.API()
    with served.serving(api) as url:
        yield Reader(request.param, api, url, tmp_path, capsysbinary)


declared = pytest.mark.parametrize("reader", [True], ids=["manifest"], indirect=True)
"""Runs a test only with the manifests, not with their Python versions."""


def _is_now(text: str) -> bool:
    parsed = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    return abs(datetime.now(timezone.utc) - parsed) < timedelta(minutes=5)


def test_next_sync_requests_from_the_newest_article(reader: Reader) -> None:
    """The guide's example: from-date is the start date, then the date of the newest article."""
    assert len(reader.read("articles", "articles", ARTICLES)) == 6
    [query] = reader.queries
    assert query.pop("from-date") == "2023-04-09T00:00:00Z"
    assert _is_now(query.pop("to-date"))
    assert query == {}
    [article] = reader.read("articles", "articles", ARTICLES)
    assert article["webPublicationDate"] == LAST
    [query] = reader.queries
    assert query.pop("from-date") == LAST
    assert _is_now(query["to-date"])


@declared
def test_lookback_window_precedes_the_bookmark(reader: Reader) -> None:
    """The guide's example: two days before the newest article; the state is unchanged."""
    reader.read("articles", "edited_articles", ARTICLES)
    for _ in range(2):
        assert len(reader.read("articles", "edited_articles", ARTICLES)) == 2
        assert [query["from-date"] for query in reader.queries] == ["2023-04-13T07:30:58Z"]


@declared
def test_sync_resumes_from_a_state_of_airbyte_cdk(reader: Reader) -> None:
    """The request equals that after a sync of this SDK."""
    saved_state = {
        "stream_descriptor": {"name": "articles"},
        "stream_state": {"webPublicationDate": LAST},
    }
    reader.states = [{"type": "STREAM", "stream": saved_state}]
    reader.read("articles", "articles", ARTICLES)
    assert [query["from-date"] for query in reader.queries] == [LAST]


@declared
def test_interval_is_split_into_slices_of_ten_days(reader: Reader) -> None:
    """A slice ends one granularity before the next one starts."""
    config = {**ARTICLES, "start_date": "2023-01-01T00:00:00Z", "end_date": "2023-02-05T00:00:00Z"}
    rows = reader.read("articles", "archive", config)
    assert [(query["from-date"], query["to-date"]) for query in reader.queries] == [
        ("2023-01-01T00:00:00Z", "2023-01-10T23:59:59Z"),
        ("2023-01-11T00:00:00Z", "2023-01-20T23:59:59Z"),
        ("2023-01-21T00:00:00Z", "2023-01-30T23:59:59Z"),
        ("2023-01-31T00:00:00Z", "2023-02-05T00:00:00Z"),
    ]
    assert [row["webPublicationDate"] for row in rows] == sorted(
        time for _, time in reader.api.list_times() if "2023-01-01" <= time <= "2023-02-05"
    )


def test_pages_are_requested_within_an_interval(reader: Reader) -> None:
    config = {**ARTICLES, "start_date": "2023-03-20T00:00:00Z"}
    rows = reader.read("articles", "articles", config)
    assert len(rows) == len({row["id"] for row in rows}) == 22
    assert [query.get("page") for query in reader.queries] == [None, "2", "3"]
    assert {query["from-date"] for query in reader.queries} == {"2023-03-20T00:00:00Z"}


def test_data_feed_is_read_until_the_start_date_or_bookmark(reader: Reader) -> None:
    """No request has a time; the page with the start date or the bookmark is the last one."""
    rows = reader.read("feed", "posts", FEED)
    assert len(rows) == 37
    assert reader.queries == [{"limit": "25"}, {"limit": "25", "after": "t3_66"}]
    assert [row["name"] for row in reader.read("feed", "posts", FEED)] == ["t3_90"]
    assert reader.queries == [{"limit": "25"}]


@declared
def test_record_at_the_bookmark_can_be_dropped(reader: Reader) -> None:
    """As the guide says: a record equal to the cut-off was already synced."""
    reader.read("feed", "posts", FEED)
    assert reader.read("feed", "posts", FEED, "--boundary", "drop") == []
    assert reader.queries == [{"limit": "25"}]


def test_each_day_in_the_path_is_one_request(reader: Reader) -> None:
    """stream_interval.start_time in the path: once per day, with leap day and last day."""
    rows = reader.read("rates", "rates", RATES)
    days = ["2024-02-27", "2024-02-28", "2024-02-29", "2024-03-01", "2024-03-02"]
    assert [request.path for request in reader.api.requests] == [f"/rates/{day}" for day in days]
    assert [row["date"] for row in rows] == days
    reader.read("rates", "rates", {**RATES, "end_date": "2024-03-03"})
    assert [request.path for request in reader.api.requests] == [
        "/rates/2024-03-02",
        "/rates/2024-03-03",
    ]


def test_interval_in_a_request_parameter_has_prefix_and_suffix(reader: Reader) -> None:
    """stream_interval in a parameter of the manifest."""
    rows = reader.read("messages", "messages", MESSAGES)
    assert [query["query"] for query in reader.queries] == [
        f'last_event_time BETWEEN TIMESTAMP "{first}" AND TIMESTAMP "{last}"'
        for first, last in (
            ("2023-01-01T00:00:00Z", "2023-01-31T23:59:59Z"),
            ("2023-02-01T00:00:00Z", "2023-02-28T23:59:59Z"),
            ("2023-03-01T00:00:00Z", "2023-03-10T00:00:00Z"),
        )
    ]
    assert len(rows) == len({row["msg_id"] for row in rows}) == 54


@declared
def test_wrong_key_is_a_config_error_without_the_key(
    reader: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    """A wrong one ends the sync with what to do."""
    stream_document = {"name": "articles", "json_schema": {}}
    (reader.folder / "catalog").write_text(json.dumps({"streams": [{"stream": stream_document}]}))
    config = {"api_url": reader.url, **ARTICLES, "api_key": "k-secret-2"}
    (reader.folder / "config").write_text(json.dumps(config))
    arguments = ["read", "--manifest", str(SAMPLES / "articles" / "manifest.yaml")]
    for name in ("config", "catalog"):
        arguments += [f"--{name}", str(reader.folder / name)]
    assert reader.code(arguments) == 1
    captured = reader.output.readouterr()
    [error] = [
        message["trace"]["error"]
        for message in map(json.loads, captured.out.splitlines())
        if message["type"] == "TRACE" and message["trace"]["type"] == "ERROR"
    ]
    assert "401" in str(error)
    assert error["failure_type"] == "config_error"
    assert b"k-secret-2" not in captured.out + captured.err
    assert "k-secret-2" not in caplog.text
