"""Responses whose bodies are spooled to files."""

from __future__ import annotations

import gc
import io

import pytest
import requests

from tap_core.http.response import JSONResponse
from tap_core.http.response_limits import Deadline, ResponseLimits
from tap_core.http.spooled_response import SpooledResponse, open_response_body, spool_to_file
from tests.http.server import Reply, serving

BODY = b"0123456789" * 20_000
LIMITS = ResponseLimits()


def fetched(reply: Reply) -> requests.Response:
    with serving() as server:
        server.answers(reply)
        response = requests.get(server.url, stream=True, timeout=10)
        return spool_to_file(response, LIMITS, Deadline(LIMITS))


def test_spooled_body_can_be_read_repeatedly_and_is_not_cached_in_memory():
    answer = fetched(Reply(BODY))
    assert isinstance(answer, SpooledResponse)
    assert answer.status_code == 200
    first, second = open_response_body(answer), open_response_body(answer)
    assert first.read(3) == b"012"
    assert second.read(5) == b"01234"
    assert first.read(3) == b"345"
    assert answer.content == BODY
    assert b"".join(answer.iter_content(1000)) == BODY
    assert answer._content is False


def test_body_reader_supports_seek_and_tell():
    reader = open_response_body(fetched(Reply(b"abcdef")))
    assert reader.seek(-2, io.SEEK_END) == 4
    assert reader.read() == b"ef"
    reader.seek(1)
    assert reader.seek(1, io.SEEK_CUR) == 2
    assert reader.read(1) == b"c"
    assert reader.tell() == 3
    assert reader.readable()
    assert reader.seekable()


def test_body_reader_works_after_the_response_is_deleted():
    answer = fetched(Reply(b"abc"))
    reader = open_response_body(answer)
    del answer
    gc.collect()
    assert reader.read() == b"abc"


def test_small_spooled_body_is_read_as_json():
    assert fetched(Reply({"a": 1})).json() == {"a": 1}


def test_body_in_memory_has_a_reader_and_is_not_spooled():
    response = JSONResponse()
    response._content = b"abc"
    assert open_response_body(response).read() == b"abc"
    assert spool_to_file(response, LIMITS, Deadline(LIMITS)) is response


def test_truncated_body_is_an_error_when_spooled():
    with pytest.raises(requests.exceptions.RequestException):
        fetched(Reply(BODY, keep=10))
