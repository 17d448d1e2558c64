"""Pagination reset: invalid configurations and the end of repeated resets."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tap_core.exceptions import SyncError
from tap_core.manifest.components.pagination_reset import PaginationReset
from tap_core.manifest.components.retrievers import SimpleRetriever
from tap_core.manifest.errors import ManifestError
from tests.http.server import page, serving
from tests.manifest.pieces import build
from tests.manifest.running import list_paths, manifest, run, stream

LIMITED = """\
    pagination_reset:
      type: PaginationReset
      action: SPLIT_USING_CURSOR
      limits: {type: PaginationResetLimits, number_of_records: 2}
"""
BY_DAY = """\
    incremental_sync:
      type: DatetimeBasedCursor
      cursor_field: at
      datetime_format: "%Y-%m-%d"
      start_datetime: "2024-01-01"
      end_datetime: "2024-01-31"
      start_time_option: {type: RequestOption, inject_into: request_parameter, field_name: from}
"""


def test_invalid_pagination_reset_limit_is_rejected(tmp_path: Path):
    text = "{type: PaginationReset, action: RESET, limits: {type: PaginationResetLimits, %s}}"
    assert build(text % "number_of_records: null", PaginationReset).limit is None
    with pytest.raises(ManifestError, match="SPLIT_USING_CURSOR"):
        build(text % "number_of_records: 5", PaginationReset)
    filtered = """\
        type: SimpleRetriever
        requester: {type: HttpRequester, url: x}
        record_selector:
          type: RecordSelector
          extractor: {type: DpathExtractor, field_path: []}
          record_filter: {type: RecordFilter, condition: "{{ record['a'] }}"}
    """
    with pytest.raises(ManifestError, match="combined with a record_filter"):
        build(dedent(filtered) + dedent(LIMITED), SimpleRetriever)
    with serving() as server:
        server.answers(page({"id": 1}))
        result = run(
            manifest(tmp_path, stream("items", "/items", retriever=LIMITED)), server, fails=True
        )
    assert "need a DatetimeBasedCursor" in str(result.error)


def test_too_many_equal_cursor_values_end_the_sync(tmp_path: Path):
    """The sync restarts from the second day, which has more records than the limit."""
    declared = stream("items", "/items", retriever=LIMITED, options=BY_DAY)
    with serving() as server:
        server.answers(
            page({"id": 1, "at": "2024-01-01"}, {"id": 2, "at": "2024-01-02"}),
            page({"id": 2, "at": "2024-01-02"}, {"id": 3, "at": "2024-01-02"}, {"id": 4}),
        )
        result = run(manifest(tmp_path, declared), server, fails=True)
        assert list_paths(server) == ["/items?from=2024-01-01", "/items?from=2024-01-02"]
    assert isinstance(result.error, SyncError)
    assert "3 records were read and the limit of a pagination is 2" in str(result.error)
    assert [record["id"] for record in result.records("items")] == [1, 2, 2, 3, 4]
