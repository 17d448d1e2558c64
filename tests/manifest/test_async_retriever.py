"""AsyncRetriever: streams whose records are the results of asynchronous jobs."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from tap_core.exceptions import FatalSyncError
from tap_core.http.spooled_response import SpooledResponse
from tap_core.manifest import async_jobs
from tap_core.manifest.components import decoders
from tap_core.manifest.components.async_retriever import AsyncJobStatusMap
from tap_core.manifest.components.file_extractors import ResponseToFileExtractor
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.lint import lint_manifest
from tap_core.manifest.tap import make_tap_class
from tap_core.sync.concurrency import explain_not_distributed
from tests.http.server import ReceivedRequest, Reply, Server, serving
from tests.manifest.pieces import build, make_response
from tests.manifest.reports import ReportsApi, make_fake_clock, report_stream
from tests.manifest.running import DATE_CURSOR, manifest, run, stream

PARTS = """
partition_router: {type: ListPartitionRouter, cursor_field: part, values: [a, b, c, d, e]}
"""
CURSOR = (
    DATE_CURSOR
    + """\
  end_datetime: "2024-01-30"
  step: P10D
  cursor_granularity: P1D
"""
)
DAYS = ("2024-01-01", "2024-01-11", "2024-01-21")


@pytest.fixture
def waits(monkeypatch) -> list[float]:
    """Record the waits for jobs without sleeping."""
    seconds: list[float] = []
    monkeypatch.setattr(async_jobs, "time", make_fake_clock(seconds))
    return seconds


def list_requests(server: Server) -> list[str]:
    return [f"{request.method} {request.path}" for request in server.requests]


def rows_by_day(of: str) -> Reply:
    return Reply([{"id": 1, "at": of}])


@pytest.fixture
def api() -> Iterator[tuple[Server, ReportsApi]]:
    with serving() as server:
        made_of = ReportsApi()
        server.answers_by(made_of)
        yield server, made_of


class TestSingleJob:
    def test_job_is_created_polled_downloaded_and_deleted(self, tmp_path: Path, api, waits):
        server, _ = api
        result = run(manifest(tmp_path, report_stream()), server)
        assert result.records("items") == [{"id": 1}]
        assert list_requests(server) == [
            "POST /jobs",
            *["GET /jobs/0-items"] * 3,
            "GET /files/0-items",
            "DELETE /jobs/0-items",
        ]
        assert sum(waits) == pytest.approx(1.5, abs=0.2)
        assert max(waits) <= 0.1

    def test_polling_interval_grows_with_the_duration_of_the_job(self, tmp_path: Path, api, waits):
        server, source = api
        source.statuses = [*["queued"] * 8, "done"]
        run(manifest(tmp_path, report_stream()), server)
        assert sum(waits) == pytest.approx(0.5 + 1 + 2 + 3 + 4 * 5, abs=0.5)

    @pytest.mark.parametrize(
        ("decoder", "body"),
        [
            ("{type: JsonlDecoder}", b'{"id": 1}\n{"id": 2}\n'),
            ("{type: GzipDecoder, decoder: {type: JsonlDecoder}}", b'{"id": 1}\n{"id": 2}'),
            ("{type: JsonItemsDecoder, items_path: data}", b'{"data": [{"id": 1}, {"id": 2}]}'),
        ],
    )
    def test_download_decoder_reads_the_result(
        self, tmp_path: Path, api, waits, decoder: str, body: bytes
    ):
        server, source = api
        is_packed = "Gzip" in decoder
        source.files = lambda _: Reply(gzip.compress(body) if is_packed else body)
        path = manifest(tmp_path, report_stream(retriever=f"download_decoder: {decoder}"))
        assert run(path, server).records("items") == [{"id": 1}, {"id": 2}]

    def test_truncated_result_is_downloaded_again_before_any_record(
        self, tmp_path: Path, api, waits
    ):
        server, source = api
        body = "".join(f'{{"id": {number}}}\n' for number in range(50_000))
        replies = [Reply(body, keep=300_000), Reply(body)]
        source.files = lambda _: replies.pop(0)
        path = manifest(tmp_path, report_stream(retriever="download_decoder: {type: JsonlDecoder}"))
        result = run(path, server)
        assert [record["id"] for record in result.records("items")] == list(range(50_000))

    def test_result_is_spooled_to_disk(self, tmp_path: Path, api, waits, monkeypatch):
        server, source = api
        opened: list[Any] = []
        real = decoders.open_body
        monkeypatch.setattr(
            decoders, "open_body", lambda response: opened.append(response) or real(response)
        )
        source.files = lambda _: Reply("id\n1\n")
        path = manifest(tmp_path, report_stream(retriever="download_decoder: {type: CsvDecoder}"))
        assert run(path, server).records("items") == [{"id": "1"}]
        [fetched] = opened
        assert isinstance(fetched, SpooledResponse)
        assert fetched._content is False

    def test_skipped_job_is_not_downloaded(self, tmp_path: Path, api, waits):
        server, source = api
        source.statuses = ["empty"]
        result = run(manifest(tmp_path, report_stream()), server)
        assert result.records("items") == []
        assert list_requests(server) == ["POST /jobs", "GET /jobs/0-items"]

    def test_transformations_do_not_change_the_page_for_the_paginator(
        self, tmp_path: Path, api, waits
    ):
        server, source = api
        pages = [Reply({"data": [{"id": 1}, {"id": 2}]}), Reply({"data": [{"id": 9}]})]
        source.files = lambda _: pages.pop(0)
        options = "transformations: [{type: RemoveFields, field_pointers: [[id]]}]"
        retriever = """
        download_extractor: {type: DpathExtractor, field_path: [data]}
        download_paginator:
          type: DefaultPaginator
          page_token_option: {type: RequestOption, inject_into: request_parameter, field_name: p}
          pagination_strategy:
            type: CursorPagination
            cursor_value: "{{ response['data'][0]['id'] + last_page_size }}"
            stop_condition: "{{ response['data'][0]['id'] == 9 }}"
        """
        path = manifest(tmp_path, report_stream(retriever=retriever, options=options))
        run(path, server)
        assert [request.query for request in server.requests if "files" in request.path] == [
            {},
            {"p": ["3"]},
        ]


class TestFailures:
    def test_failed_job_is_created_again(self, tmp_path: Path, api, waits, caplog):
        server, source = api
        first = iter([["broken"], ["queued", "done"]])
        source.statuses_by_slice = StatusSequence(first)
        retriever = "failed_retry_wait_time_in_seconds: 60"
        result = run(manifest(tmp_path, report_stream(retriever=retriever)), server)
        assert result.records("items") == [{"id": 1}]
        assert list_requests(server).count("POST /jobs") == 2
        assert sum(waits) == pytest.approx(60.5, abs=0.3)
        assert "its job ended with status 'failed' and is created again." in caplog.text

    def test_third_failed_job_is_an_error_with_stream_and_slice(self, tmp_path: Path, api, waits):
        server, source = api
        source.statuses = ["broken"]
        values = "partition_router: {type: ListPartitionRouter, cursor_field: part, values: [%s]}"
        path = manifest(tmp_path, report_stream(retriever=values % "s3cr3t-key"))
        result = run(path, server, fails=True, config={"api_key": "s3cr3t-key"})
        assert isinstance(result.error, FatalSyncError)
        assert result.error.failure_type == "system_error"
        text = str(result.error)
        assert text.startswith("Stream 'items', slice {\"part\":")
        assert text.endswith("its job ended 3 times with status 'failed'.")
        assert "s3cr3t-key" not in text
        assert list_requests(server).count("POST /jobs") == 3

    def test_job_that_times_out_is_aborted_and_created_again(self, tmp_path: Path, api, waits):
        server, source = api
        source.statuses = ["queued"]
        retriever = "polling_job_timeout: \"{{ config['minutes'] }}\""
        path = manifest(tmp_path, report_stream(retriever=retriever))
        result = run(path, server, fails=True, config={"minutes": "2"})
        assert "its job ended 3 times with status 'timeout'" in str(result.error)
        aborted = [request for request in list_requests(server) if request.endswith("abort")]
        assert aborted == [f"POST /jobs/{number}-items/abort" for number in range(3)]
        assert sum(waits) == pytest.approx(3 * 120 + 2 * 5, abs=5)

    def test_timeout_status_of_the_source_creates_the_job_again(self, tmp_path: Path, api, waits):
        server, source = api
        source.statuses_by_slice = StatusSequence(iter([["late"], ["done"]]))
        result = run(manifest(tmp_path, report_stream()), server)
        assert result.records("items") == [{"id": 1}]
        assert "POST /jobs/0-items/abort" in list_requests(server)

    @pytest.mark.parametrize(
        ("status", "message"),
        [
            ("strange", "its job has the status 'strange', which is not in status_mapping"),
            ("", "the polling response has no status at the path of status_extractor"),
        ],
    )
    def test_unknown_job_status_ends_the_stream(
        self, tmp_path: Path, api, waits, status: str, message: str
    ):
        server, source = api
        source.statuses = [status]
        result = run(manifest(tmp_path, report_stream()), server, fails=True)
        assert str(result.error) == f"Stream 'items': {message}."
        assert list_requests(server)[-1] == "POST /jobs/0-items/abort"

    def test_failed_job_creation_is_tried_three_times(self, tmp_path: Path, waits):
        with serving() as server:
            server.answers(Reply({"message": "busy"}, status=400))
            result = run(manifest(tmp_path, report_stream()), server, fails=True)
        assert list_requests(server) == ["POST /jobs"] * 3
        assert "Stream 'items': no job could be created: 400 Client Error" in str(result.error)
        assert sum(waits) == pytest.approx(10, abs=0.3)

    def test_ignored_error_of_a_job_creation_is_an_error(self, tmp_path: Path, waits):
        body = """
        error_handler:
          type: DefaultErrorHandler
          response_filters: [{type: HttpResponseFilter, http_codes: [404], action: IGNORE}]
        """
        with serving() as server:
            server.answers(Reply(status=404))
            result = run(manifest(tmp_path, report_stream(body=body)), server, fails=True)
        assert "status 404" in str(result.error)

    def test_job_creation_with_wrong_credentials_is_not_retried(self, tmp_path: Path, waits):
        with serving() as server:
            server.answers(Reply(status=401))
            result = run(manifest(tmp_path, report_stream()), server, fails=True)
        assert list_requests(server) == ["POST /jobs"]
        assert result.error is not None
        assert getattr(result.error, "failure_type", None) == "config_error"

    def test_requests_of_a_job_use_their_error_handler(self, tmp_path: Path, api, waits):
        server, source = api
        busy = [Reply(status=503), Reply(status=503)]
        server.answers_by(
            lambda request: busy.pop() if busy and request.method == "GET" else source(request)
        )
        result = run(manifest(tmp_path, report_stream()), server)
        assert result.records("items") == [{"id": 1}]

    def test_reset_pagination_is_an_error_for_a_job_creation(self, tmp_path: Path, waits):
        body = """
        error_handler:
          type: DefaultErrorHandler
          response_filters:
            - {type: HttpResponseFilter, http_codes: [410], action: RESET_PAGINATION}
        """
        with serving() as server:
            server.answers(Reply(status=410))
            result = run(manifest(tmp_path, report_stream(body=body)), server, fails=True)
        assert "410 Client Error" in str(result.error)

    def test_failed_deletion_of_a_job_is_a_warning(self, tmp_path: Path, api, waits, caplog):
        server, source = api
        no = Reply(status=405)
        server.answers_by(lambda request: no if request.method == "DELETE" else source(request))
        assert run(manifest(tmp_path, report_stream()), server).records("items") == [{"id": 1}]
        assert "Stream 'items': its job could not be removed: 405" in caplog.text


class StatusSequence(dict[str, list[str]]):
    """Returns the next list of statuses for each new job."""

    def __init__(self, statuses: Iterator[list[str]]) -> None:
        super().__init__()
        self._words = statuses

    def get(self, _key: str, _usual: Any = None) -> list[str]:  # type: ignore[override]
        return next(self._words)


class TestWindows:
    def test_bookmark_advances_after_each_job_and_the_next_run_resumes(
        self, tmp_path: Path, api, waits
    ):
        server, source = api
        source.files = rows_by_day
        source.statuses_by_slice = {DAYS[1]: ["broken"]}
        path = manifest(tmp_path, report_stream(options=CURSOR))
        result = run(path, server, fails=True)
        assert result.records("items") == [{"id": 1, "at": DAYS[0]}]
        assert '{"start_time":"2024-01-11","end_time":"2024-01-20"}' in str(result.error)
        assert result.state["bookmarks"]["items"]["replication_key_value"] == DAYS[0]
        source.statuses_by_slice = {}
        second = run(path, server, state=result.state)
        assert [record["at"] for record in second.records("items")] == list(DAYS)
        assert second.state["bookmarks"]["items"]["replication_key_value"] == DAYS[2]

    def test_window_of_a_skipped_job_is_completed(self, tmp_path: Path, api, waits):
        server, source = api
        source.files = rows_by_day
        source.statuses_by_slice = {DAYS[1]: ["empty"]}
        result = run(manifest(tmp_path, report_stream(options=CURSOR)), server)
        assert [record["at"] for record in result.records("items")] == [DAYS[0], DAYS[2]]
        assert result.state["bookmarks"]["items"]["replication_key_value"] == DAYS[2]

    def test_parallel_jobs_respect_the_limit_and_keep_the_order(self, tmp_path: Path, api, waits):
        server, source = api
        source.files = rows_by_day
        source.wait_for = 2
        tail = "max_concurrent_async_job_count: \"{{ config['jobs'] }}\""
        path = manifest(tmp_path, report_stream(options=CURSOR), tail=tail)
        result = run(path, server, config={"jobs": 2})
        assert [record["at"] for record in result.records("items")] == list(DAYS)
        assert source.max_running == 2
        assert [
            state["bookmarks"]["items"].get("replication_key_value") for state in result.states
        ] == list(DAYS)


class TestConcurrentJobs:
    @pytest.mark.parametrize("max_jobs", [1, 2, 4])
    def test_job_limit_applies_to_all_threads(self, tmp_path: Path, api, waits, max_jobs: int):
        server, source = api
        source.wait_for = max_jobs
        tail = f"""
        max_concurrent_async_job_count: {max_jobs}
        concurrency_level: {{type: ConcurrencyLevel, default_concurrency: 5}}
        """
        path = manifest(tmp_path, report_stream(retriever=PARTS), tail=tail)
        result = run(path, server)
        assert len(result.records("items")) == 5
        assert source.max_running == max_jobs

    @pytest.mark.parametrize("limit", ["0", "many", "'{{ config[\"none\"] }}'"])
    def test_invalid_job_limit_means_one_job_at_a_time(self, tmp_path: Path, limit: str, caplog):
        path = manifest(tmp_path, report_stream(), tail=f"max_concurrent_async_job_count: {limit}")
        tap = make_tap_class(path)(config={"url": "http://x"})
        assert tap.shared.job_limiter.max_jobs == 1
        assert tap.streams["items"].max_parallel_partitions == 1
        assert ("one job at a time" in caplog.text) is ("{{" not in limit)

    def test_job_limit_does_not_apply_to_other_streams(self, tmp_path: Path):
        path = manifest(
            tmp_path,
            report_stream(),
            stream("others", "/others"),
            tail="max_concurrent_async_job_count: 7",
        )
        tap = make_tap_class(path)(config={"url": "http://x"})
        numbers = {name: stream.max_parallel_partitions for name, stream in tap.streams.items()}
        assert numbers == {"items": 7, "others": 1}
        reasons = {name: explain_not_distributed(stream) for name, stream in tap.streams.items()}
        assert reasons == {
            "items": "its jobs at the source are counted by one process",
            "others": None,
        }

    def test_permanent_failure_of_a_job_aborts_the_others(self, tmp_path: Path, api):
        """With the real clock: waiting threads are woken by the end of the run."""
        server, source = api
        source.statuses = ["queued"]
        source.statuses_by_slice = {"c": [*["queued"] * 2, "strange"]}
        tail = "max_concurrent_async_job_count: 3"
        start = time.monotonic()
        result = run(
            manifest(tmp_path, report_stream(retriever=PARTS), tail=tail), server, fails=True
        )
        assert "the status 'strange'" in str(result.error)
        aborted = {
            request.split("-")[1] for request in list_requests(server) if request.endswith("abort")
        }
        assert aborted == {"a/abort", "b/abort", "c/abort"}
        assert not source.running_jobs
        assert time.monotonic() - start < 300

    def test_async_stream_can_be_the_parent_of_another_with_one_job_at_a_time(
        self, tmp_path: Path, api, waits
    ):
        server, source = api
        source.files = lambda of: Reply([{"id": f"{of}1"}, {"id": f"{of}2"}])
        router = """
        partition_router:
          type: SubstreamPartitionRouter
          parent_stream_configs:
            - type: ParentStreamConfig
              stream: "#/streams/0"
              parent_key: id
              partition_field: part
        """
        result = run(
            manifest(tmp_path, report_stream("tops"), report_stream("below", retriever=router)),
            server,
        )
        assert [record["id"] for record in result.records("below")] == [
            *("tops11", "tops12", "tops21", "tops22")
        ]
        assert source.max_running == 1

    def test_connection_check_creates_one_job(self, tmp_path: Path, api, waits):
        server, _ = api
        path = manifest(tmp_path, report_stream(retriever=PARTS))
        make_tap_class(path)(config={"url": server.url}).check_connection()
        assert list_requests(server).count("POST /jobs") == 1


class TestTermination:
    def test_poll_wait_ends_when_the_output_fails(self):
        class Outbox:
            failure = ConnectionError("nobody reads")

        class Alone:
            stop_signal = None
            outbox = Outbox

        start = time.monotonic()
        with pytest.raises(ConnectionError):
            async_jobs.poll_sleep(Alone(), 600)  # type: ignore[arg-type]
        assert time.monotonic() - start < 300

    def test_thread_waiting_for_a_job_slot_is_woken_by_an_error(self):
        limiter = async_jobs.JobLimiter(1)
        slot_taken, slot_freed = threading.Event(), threading.Event()

        def hold() -> None:
            with limiter.hold_slot(bool):
                slot_taken.set()
                slot_freed.wait(60)

        holder = threading.Thread(target=hold)
        holder.start()
        assert slot_taken.wait(60)

        def check() -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt), limiter.hold_slot(check):
            pass
        slot_freed.set()
        holder.join()
        with limiter.hold_slot(check):
            pass

    def test_signal_aborts_the_running_job(self, tmp_path: Path, api, monkeypatch):
        server, source = api
        source.statuses = ["queued"]

        def interrupted(_run: Any, _seconds: float) -> None:
            raise SystemExit(0)

        monkeypatch.setattr(async_jobs, "poll_sleep", interrupted)
        with pytest.raises(SystemExit):
            run(manifest(tmp_path, report_stream()), server)
        assert list_requests(server)[-1] == "POST /jobs/0-items/abort"
        assert not source.running_jobs


def test_dynamic_schema_loader_can_read_from_a_job(tmp_path: Path, api, waits):
    server, source = api
    source.files = lambda _: Reply({"fields": [{"name": "size", "kind": "integer"}]})
    retriever = "\n".join(report_stream("fields").splitlines()[2:])
    retriever = retriever.partition("    schema_loader:")[0]
    loader = f"""\
schema_loader:
  type: DynamicSchemaLoader
  schema_type_identifier:
    schema_pointer: [fields]
    key_pointer: [name]
    type_pointer: [kind]
{retriever.replace("    retriever:", "  retriever:", 1)}
"""
    path = manifest(tmp_path, _without_schema(stream("items", "/items"), loader))
    tap = make_tap_class(path)(config={"url": server.url})
    assert list(tap.streams["items"].schema["properties"]) == ["size"]


def _without_schema(declared: str, loader: str) -> str:
    return declared.partition("    schema_loader:")[0] + indent(loader, "    ")


def test_older_option_names_of_airbyte_cdk_are_supported(tmp_path: Path, waits):
    declared = """\
  - type: DeclarativeStream
    name: items
    retriever:
      type: AsyncRetriever
      status_mapping: {running: [pending], completed: [ready], failed: [failed], timeout: []}
      status_extractor: {type: DpathExtractor, field_path: [status]}
      urls_extractor: {type: DpathExtractor, field_path: [urls]}
      creation_requester: {$ref: "#/definitions/requester", path: jobs, http_method: POST}
      polling_requester:
        $ref: "#/definitions/requester"
        path: "jobs/{{ stream_slice['create_job_response'].json()['id'] }}"
      download_requester: {type: HttpRequester, url_base: "", path: "{{ stream_slice['url'] }}"}
      record_selector:
        type: RecordSelector
        extractor: {type: DpathExtractor, field_path: []}
    schema_loader: {type: InlineSchemaLoader, schema: {type: object, properties: {}}}
"""
    with serving() as server:

        def reply(request: ReceivedRequest) -> Reply:
            if request.path == "/jobs":
                return Reply({"id": 7})
            if request.path == "/jobs/7":
                return Reply({"status": "ready", "urls": [f"{server.url}/{name}" for name in "ab"]})
            return Reply(gzip.compress(b"ID,NAME\n1,NA\n"))

        server.answers_by(reply)
        result = run(manifest(tmp_path, declared), server)
    assert list_requests(server) == ["POST /jobs", "GET /jobs/7", "GET /a", "GET /b"]
    assert result.records("items") == [{"ID": "1"}] * 2


class TestManifestOptions:
    def test_status_listed_twice_is_an_error(self):
        statuses = "running: [a, b], completed: [], failed: [b], timeout: []"
        with pytest.raises(ManifestError, match="The status 'b' is listed twice"):
            build(f"{{type: AsyncJobStatusMap, {statuses}}}", AsyncJobStatusMap)

    def test_non_string_status_is_matched_as_text(self):
        statuses = "running: [1], completed: [true], failed: [], timeout: []"
        status_map = build(f"{{type: AsyncJobStatusMap, {statuses}}}", AsyncJobStatusMap)
        assert [status_map.get_status(str(status)) for status in (1, True, None)] == [
            "running",
            "completed",
            None,
        ]

    @pytest.mark.parametrize(
        ("retriever", "message"),
        [
            ("polling_job_timeout: 0", "polling_job_timeout is 0, and must be at least 1."),
            ("failed_retry_wait_time_in_seconds: -1", "must be at least 1."),
            (
                "download_target_requester: {type: HttpRequester, url: x}",
                "download_target_requester needs a download_target_extractor",
            ),
            ("polling_requester: {type: HttpRequester}", "A requester needs a `url`."),
            ("pollingtimeout: 1", "has no option 'pollingtimeout'"),
        ],
    )
    def test_lint_finds_invalid_async_options(self, tmp_path: Path, retriever: str, message: str):
        path = manifest(tmp_path, report_stream(retriever=retriever))
        assert any(message in problem.message for problem in lint_manifest(path).problems)

    def test_lint_accepts_a_valid_async_stream(self, tmp_path: Path):
        path = manifest(
            tmp_path,
            report_stream("items", retriever=PARTS, options=CURSOR),
            tail="max_concurrent_async_job_count: \"{{ config['n'] }}\"",
        )
        assert [problem for problem in lint_manifest(path).problems if problem.is_error] == []


class TestResultFiles:
    def rows(self, text: str, **options: Any) -> list[Any]:
        extractor = ResponseToFileExtractor(**options)
        decoder = extractor.replace_decoder(decoders.JsonDecoder())
        [document] = decoder(make_response(body=text.encode()))
        return list(extractor.extract(document))

    def test_na_values_are_null_unless_preserved(self):
        text = "a,b\nNA,null\n,x\x00y\n"
        assert self.rows(text) == [{"a": None, "b": None}, {"a": None, "b": "xy"}]
        rows = self.rows(text, preserve_na_values=True)
        assert rows == [{"a": "NA", "b": "null"}, {"a": None, "b": "xy"}]

    def test_empty_result_file_has_no_rows(self):
        assert self.rows("") == []

    @pytest.mark.parametrize(
        ("header", "names"),
        [
            ("id,,id", ["id", "Unnamed: 1", "id.1"]),
            ("a,a,a.1,a", ["a", "a.2", "a.1", "a.3"]),
            ("a.1,a,a", ["a.1", "a", "a.2"]),
            (",Unnamed: 0", ["Unnamed: 0.1", "Unnamed: 0"]),
        ],
    )
    def test_duplicate_columns_have_the_names_of_pandas(self, header: str, names: list[str]):
        values = [str(number) for number in range(len(names))]
        [row] = self.rows(f"{header}\n{','.join(values)}\n")
        assert row == dict(zip(names, values, strict=True))

    def test_row_with_too_many_values_is_an_error(self):
        with pytest.raises(FatalSyncError, match="Line 3 of the file has 3 values"):
            self.rows("a,b\n1,2\n1,2,3\n")


_REDUCING = """
from airbyte_cdk.sources.streams.http.error_handlers import ErrorHandler
from airbyte_cdk.sources.streams.http.error_handlers.response_models import (
    ErrorResolution, ResponseAction,
)

class Reducing(ErrorHandler):
    def interpret_response(self, response):
        return ErrorResolution(ResponseAction.REDUCE_PAGE_SIZE, None, "too large")
"""


def test_page_size_reduction_is_an_error_for_a_request_that_is_not_for_a_page(
    tmp_path: Path, waits
):
    (tmp_path / "components.py").write_text(_REDUCING, encoding="utf-8")
    body = "error_handler: {type: CustomErrorHandler, class_name: components.Reducing}"
    with serving() as server:
        server.answers(Reply({}, status=413))
        result = run(manifest(tmp_path, report_stream(body=body)), server, fails=True)
    assert isinstance(result.error, FatalSyncError)
    assert "no job could be created: too large (413" in str(result.error)
