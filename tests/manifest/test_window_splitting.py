"""Splitting of request windows: the smallest window and invalid configurations."""

from __future__ import annotations

from pathlib import Path

import pytest

from tap_core.exceptions import SyncError
from tap_core.manifest.errors import ManifestError
from tests.http.server import ReceivedRequest, Reply, page, serving
from tests.manifest.running import list_paths, manifest, run, stream

CUT = """\
error_handler:
  type: DefaultErrorHandler
  response_filters: [{type: HttpResponseFilter, http_codes: [413], action: SPLIT_REQUEST_WINDOW}]
"""
CURSOR = """\
incremental_sync:
  type: DatetimeBasedCursor
  cursor_field: at
  datetime_format: "%Y-%m-%d"
  start_datetime: "2024-01-01"
  end_datetime: "2024-01-08"
  start_time_option: {type: RequestOption, inject_into: request_parameter, field_name: from}
  end_time_option: {type: RequestOption, inject_into: request_parameter, field_name: to}
"""
DAYS = "  step: P30D\n  cursor_granularity: P1D\n"
LEAST = """\
request_window_splitting:
  type: RequestWindowSplitting
  min_split_window: P3D
  failure_message: Select less.
"""


def test_failed_minimum_window_ends_the_sync_and_keeps_earlier_records(tmp_path: Path):
    def answer(request: ReceivedRequest) -> Reply:
        if request.query["from"] == ["2024-01-01"] and request.query["to"] != ["2024-01-08"]:
            return page({"id": 1, "at": "2024-01-02"})
        return Reply({}, status=413)

    declared = stream("items", "/i", CUT, retriever=LEAST, options=CURSOR + DAYS)
    with serving() as server:
        server.answers_by(answer)
        result = run(manifest(tmp_path, declared), server, fails=True)
        assert [
            request.partition("=")[2].replace("2024-01-", "") for request in list_paths(server)
        ] == [
            "01&to=08",
            "01&to=04",
            "05&to=08",
        ]
    assert isinstance(result.error, SyncError)
    assert result.error.failure_type == "transient_error"
    assert "2024-01-05 to 2024-01-08, which cannot be split further. Select less." in str(
        result.error
    )
    assert [record["id"] for record in result.records("items")] == [1]


PROPERTIES = "query_properties: {type: QueryProperties, property_list: [a]}\n"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((CUT, "", CURSOR + DAYS), "needs a\\s+`request_window_splitting`"),
        ((CUT, LEAST, ""), "DatetimeBasedCursor with a `cursor_granularity`"),
        ((CUT, LEAST, CURSOR), "DatetimeBasedCursor with a `cursor_granularity`"),
        ((CUT, LEAST, f"{CURSOR}{DAYS}  is_client_side_incremental: true\n"), "the same request"),
        ((CUT + PROPERTIES, LEAST, CURSOR + DAYS), "query properties"),
        ((CUT, LEAST, CURSOR + DAYS.replace("P1D", "PT1H")), "does not distinguish datetimes"),
        ((CUT, LEAST.replace("P3D", "PT0S"), CURSOR + DAYS), "above zero"),
        ((CUT, LEAST.replace("P3D", "P3X"), CURSOR + DAYS), "P3X"),
    ],
)
def test_invalid_window_splitting_is_rejected(
    parts: tuple[str, str, str], message: str, tmp_path: Path
):
    body, retriever, options = parts
    path = manifest(tmp_path, stream("items", "/i", body, retriever=retriever, options=options))
    with serving() as server:
        server.answers(page())
        result = run(path, server, fails=True)
        assert list_paths(server) == []
    assert isinstance(result.error, ManifestError)
    with pytest.raises(ManifestError, match=message):
        raise result.error
