"""Bytes of answers to documents, also packed ones."""

from __future__ import annotations

import gzip
import io
import logging
import zipfile
from decimal import Decimal
from typing import Any

import pytest
import requests

from tap_core.exceptions import FatalAPIError
from tap_core.http.response import JSONResponse, NotJSONError, TruncatedBodyError
from tap_core.http.response_limits import ResponseTooLargeError
from tap_core.manifest.components.decoders import (
    CompositeRawDecoder,
    CsvDecoder,
    CsvParser,
    GzipDecoder,
    GzipParser,
    IterableDecoder,
    JsonDecoder,
    JsonItemsDecoder,
    JsonlDecoder,
    JsonLineParser,
    JsonParser,
    XmlDecoder,
    ZipfileDecoder,
)
from tap_core.manifest.errors import ManifestError
from tests.http.server import Reply, serving


def answer(body: bytes | str, kind: str = "") -> requests.Response:
    made = requests.Response()
    made.status_code = 200
    made._content = body.encode() if isinstance(body, str) else body
    if kind:
        made.headers["Content-Type"] = kind
        made.encoding = requests.utils.get_encoding_from_headers(made.headers)
    return made


def decoded(decoder: Any, body: bytes | str, kind: str = "") -> list[Any]:
    return list(decoder.decode(answer(body, kind)))


def zipped(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in files.items():
            archive.writestr(name, body)
    return packed.getvalue()


def test_json_is_one_document_or_the_elements_of_a_list_with_all_digits():
    assert decoded(JsonDecoder(), '{"a": 1.50}') == [{"a": Decimal("1.50")}]
    assert decoded(JsonDecoder(), '[{"a": 1}, {"a": 2}]') == [{"a": 1}, {"a": 2}]
    assert decoded(JsonDecoder(), "") == decoded(JsonDecoder(), "[]") == []


def test_a_body_that_is_no_json_is_an_error_and_not_an_empty_page():
    with pytest.raises(NotJSONError, match="not JSON"):
        decoded(JsonDecoder(), "<html>Log in</html>", "text/html")
    with pytest.raises(TruncatedBodyError, match="cut off"):
        decoded(JsonDecoder(), '{"data": [{"id": 1}, ')


def test_lines_of_json_are_documents_and_one_that_is_none_is_reported(caplog):
    """As airbyte-cdk, which warns of such a line and goes on."""
    caplog.set_level(logging.WARNING)
    body = '{"a": 1}\n\n{"a": \r\n{"a": 2.10}'
    assert decoded(JsonlDecoder(), body) == [{"a": 1}, {"a": Decimal("2.10")}]
    assert "Line 3 of a response is skipped" in caplog.text


def test_lines_of_text_are_documents_with_one_field():
    body = "a@x.test\r\nb@x.test\n"
    assert decoded(IterableDecoder(), body) == [{"record": "a@x.test"}, {"record": "b@x.test"}]


def test_the_elements_of_a_list_within_a_document():
    assert decoded(JsonItemsDecoder("data.users"), '{"data": {"users": [1, 2]}}') == [1, 2]
    assert decoded(JsonItemsDecoder("data.users"), "{}") == []


@pytest.mark.parametrize(
    "decoder, body, rows",
    [
        (CsvDecoder(), "a,b\n1,\n", [{"a": "1", "b": ""}]),
        (CsvDecoder(), 'a,b\n"x, ""y""\r\nz",2\n', [{"a": 'x, "y"\nz', "b": "2"}]),
        (CsvDecoder(delimiter="\\t"), "a\tb\n1\t2\n", [{"a": "1", "b": "2"}]),
        (CsvDecoder(delimiter=";", encoding="latin-1"), b"a;b\n\xe9;2\n", [{"a": "é", "b": "2"}]),
        (CsvDecoder(encoding="utf-8-sig"), b"\xef\xbb\xbfa\n1\n", [{"a": "1"}]),
        (CsvDecoder(set_values_to_none=["", "--"]), "a,b\n,--\n", [{"a": None, "b": None}]),
        (
            CsvDecoder(),
            "a,b\n1\n1,2,3\n",
            [{"a": "1", "b": None}, {"a": "1", "b": "2", "null": ["3"]}],
        ),
        (CsvDecoder(), "", []),
    ],
)
def test_rows_of_csv_are_keyed_by_the_first_one(decoder, body, rows):
    assert decoded(decoder, body) == rows


def test_a_delimiter_is_one_character():
    with pytest.raises(ManifestError, match="one character"):
        CsvDecoder(delimiter="||")


@pytest.mark.parametrize(
    "body, document",
    [
        ("<r><a>1</a><b/></r>", {"r": {"a": "1", "b": None}}),
        ("<r><i>1</i><i>2</i></r>", {"r": {"i": ["1", "2"]}}),
        (
            '<r x="1">t<i y="2"> u </i></r>',
            {"r": {"@x": "1", "#text": "t", "i": {"@y": "2", "#text": "u"}}},
        ),
        ("<n:r xmlns:n='u'><n:a>é</n:a></n:r>", {"n:r": {"@xmlns:n": "u", "n:a": "é"}}),
        ("<r><![CDATA[<x>]]></r>", {"r": "<x>"}),
        ("<!DOCTYPE r [<!ENTITY e 'long'>]><r>&e;x</r>", {"r": "x"}),
    ],
)
def test_xml_is_a_document_of_attributes_texts_and_lists(body, document):
    """Airbyte's YAML reference, XmlDecoder; entities of the document are not expanded."""
    assert decoded(XmlDecoder(), body, "text/xml") == [document]


def test_xml_is_read_in_the_charset_of_the_answer():
    body = "<r>é</r>".encode("latin-1")
    assert decoded(XmlDecoder(), body, "text/xml; charset=latin-1") == [{"r": "é"}]
    assert decoded(XmlDecoder(), "") == []
    with pytest.raises(FatalAPIError, match="not XML"):
        decoded(XmlDecoder(), "<r>")


@pytest.mark.parametrize("packed", [True, False])
def test_gzip_is_unpacked_and_what_is_not_packed_is_read_as_it_is(packed):
    body = b"a,b\n1,2\n"
    body = gzip.compress(body) if packed else body
    assert decoded(GzipDecoder(CsvDecoder()), body) == [{"a": "1", "b": "2"}]
    assert decoded(CompositeRawDecoder(GzipParser(CsvParser())), body) == [{"a": "1", "b": "2"}]


def test_every_file_of_a_zip_archive_is_read():
    body = zipped(one=b'{"id": 1}', two=gzip.compress(b'[{"id": 2}]'))
    assert decoded(ZipfileDecoder(GzipDecoder(JsonDecoder())), body) == [{"id": 1}, {"id": 2}]
    assert decoded(ZipfileDecoder(parser=JsonLineParser()), zipped(a=b"{}\n1")) == [{}, 1]
    with pytest.raises(FatalAPIError, match="zip archive"):
        decoded(ZipfileDecoder(JsonParser()), "no archive")
    with pytest.raises(ManifestError, match="decoder is missing"):
        ZipfileDecoder()


def test_a_packed_answer_of_a_server_is_unpacked_once():
    """A body with a Content-Encoding is unpacked by the client; the file in it by the decoder."""
    body = gzip.compress(gzip.compress(b'{"id": 1}\n{"id": 2}'))
    with serving() as server:
        server.answers(Reply(body, headers={"Content-Encoding": "gzip"}))
        response = requests.get(server.url, timeout=10)
    assert list(GzipDecoder(JsonlDecoder()).decode(response)) == [{"id": 1}, {"id": 2}]


def test_xml_that_takes_far_more_memory_than_its_bytes_is_refused():
    """SEC13: elements with attributes become mappings, thirty times as large as their text."""
    body = b"<r>" + b'<a b=""/>' * 2_000 + b"</r>"
    small = JSONResponse.of(answer(body, "text/xml"), max_bytes=len(body))
    with pytest.raises(ResponseTooLargeError, match=r"XML .* raise max_response_bytes"):
        list(XmlDecoder().decode(small))
    large = JSONResponse.of(answer(body, "text/xml"), max_bytes=100 * len(body))
    assert len(next(iter(XmlDecoder().decode(large)))["r"]["a"]) == 2_000
