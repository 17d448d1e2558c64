"""Hostile responses, such as decompression bombs or extreme JSON, fail only their own stream."""

from __future__ import annotations

import gzip
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tap_core.exceptions import FatalAPIError
from tap_core.http.response import JSONResponse, NotJSONError
from tests.http.server import ReceivedRequest, Reply, serving
from tests.manifest.running import manifest, run, stream
from tests.manifest.test_decoders import make_response

GOOD = stream("good", "/good")
DEEP, DIGITS, EXPONENT = "[" * 200_000, f"[{'9' * 100_000}]", "[1e99999999999999999999]"


def make_reply(body: bytes | str) -> object:
    def reply(request: ReceivedRequest) -> Reply:
        return Reply('{"data": [{"id": 7}]}') if request.path == "/good" else Reply(body)

    return reply


@pytest.mark.parametrize(
    "retriever",
    [
        "decoder: {type: GzipDecoder, max_unpacked_bytes: 1000, decoder: {type: JsonDecoder}}",
        "decoder: {type: GzipDecoder, decoder: {type: JsonDecoder, max_unpacked_bytes: 1000}}",
        "decoder: {type: GzipDecoder, max_unpacked_bytes: 1000, decoder: {type: JsonlDecoder}}",
        "decoder: {type: GzipDecoder, max_unpacked_bytes: 1000, decoder: {type: CsvDecoder}}",
    ],
)
def test_decompression_bomb_ends_only_its_stream(tmp_path: Path, retriever: str):
    """The error names the stream, the limit and the option."""
    path = manifest(tmp_path, stream("items", "/items", retriever=retriever), GOOD)
    with serving() as server:
        server.answers_by(make_reply(gzip.compress(b'{"data": ["' + b"x" * 2000 + b'"]}')))
        result = run(path, server, fails=True)
    assert "1,000 bytes; raise max_unpacked_bytes of the decoder" in str(result.error)
    assert "items" in str(result.error)
    assert result.records("good") == [{"id": 7}]


@pytest.mark.parametrize("body", [DEEP, DIGITS, EXPONENT], ids=["levels", "digits", "exponent"])
@pytest.mark.parametrize("decoder", ["", "decoder: {type: JsonDecoder}"])
def test_extreme_json_ends_only_its_stream(tmp_path: Path, body: str, decoder: str):
    """SEC15: a response that is nested too deeply ends its own stream only."""
    path = manifest(tmp_path, stream("items", "/items", retriever=decoder), GOOD)
    with serving() as server:
        server.answers_by(make_reply(body))
        result = run(path, server, fails=True)
    assert isinstance(result.error, FatalAPIError)
    assert "items" in str(result.error)
    assert result.records("good") == [{"id": 7}]


@pytest.mark.parametrize(
    "body, options",
    [(DEEP, {}), (DIGITS, {}), *((body, {"parse_float": Decimal}) for body in (DEEP, EXPONENT))],
    ids=range(4),
)
def test_extreme_json_raises_the_same_error_in_json_method(body: str, options: dict[str, Any]):
    """An author may call the method `json` of a response."""
    with pytest.raises(NotJSONError, match="not JSON"):
        JSONResponse.of(make_response(body)).json(**options)


def test_added_field_with_an_extremely_long_number_stays_a_string(tmp_path: Path):
    """SEC15: a number of thousands of digits in an added field stays a text."""
    added = """
    transformations:
      - {type: AddFields, fields: [{path: [y], value: "{{ record.x }}"}]}
    """
    path = manifest(tmp_path, stream("items", "/items", options=added))
    values = ["0x" + "f" * 20_000, "9" * 20_000, "0x1F"]
    rows = ",".join(f'{{"id": {n}, "x": "{value}"}}' for n, value in enumerate(values))
    with serving() as server:
        server.answers_by(make_reply(f'{{"data": [{rows}]}}'))
        result = run(path, server)
    assert [row["y"] for row in result.records("items")] == [*values[:2], 31]


def test_half_an_emoji_in_a_page_token_ends_only_its_stream(tmp_path: Path):
    """SEC15: a value of a response that no URL can contain is an error of its stream."""
    pages = """
    paginator:
      type: DefaultPaginator
      page_token_option: {type: RequestOption, inject_into: request_parameter, field_name: after}
      pagination_strategy: {type: CursorPagination, cursor_value: "{{ response.next }}"}
    """
    path = manifest(tmp_path, stream("items", "/items", retriever=pages), GOOD)
    with serving() as server:
        server.answers_by(make_reply('{"data": [{"id": 1}], "next": "\\ud83d"}'))
        result = run(path, server, fails=True)
    assert "lone surrogate (U+D83D)" in str(result.error)
    assert result.records("good") == [{"id": 7}]
