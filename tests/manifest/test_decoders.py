"""Decoders: response bodies, also compressed ones, to documents."""

from __future__ import annotations

import gzip
import io
import logging
import zipfile
from decimal import Decimal
from functools import partial
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


def make_response(body: bytes | str, kind: str = "") -> requests.Response:
    response = requests.Response()
    response.status_code = 200
    response._content = body.encode() if isinstance(body, str) else body
    if kind:
        response.headers["Content-Type"] = kind
        response.encoding = requests.utils.get_encoding_from_headers(response.headers)
    return response


def decode(decoder: Any, body: bytes | str, kind: str = "") -> list[Any]:
    return list(decoder.decode(make_response(body, kind)))


def make_zip(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in files.items():
            archive.writestr(name, body)
    return packed.getvalue()


def test_json_decoder_yields_the_document_or_list_elements_exactly():
    assert decode(JsonDecoder(), '{"a": 1.50}') == [{"a": Decimal("1.50")}]
    assert decode(JsonDecoder(), '[{"a": 1}, {"a": 2}]') == [{"a": 1}, {"a": 2}]
    assert decode(JsonDecoder(), "") == decode(JsonDecoder(), "[]") == []


def test_body_that_is_not_json_is_an_error():
    with pytest.raises(NotJSONError, match="not JSON"):
        decode(JsonDecoder(), "<html>Log in</html>", "text/html")
    with pytest.raises(TruncatedBodyError, match="cut off"):
        decode(JsonDecoder(), '{"data": [{"id": 1}, ')


def test_jsonl_decoder_skips_invalid_lines_with_a_warning(caplog):
    """As in airbyte-cdk, which also logs a warning and continues."""
    caplog.set_level(logging.WARNING)
    body = '{"a": 1}\n\n{"a": \r\n{"a": 2.10}'
    assert decode(JsonlDecoder(), body) == [{"a": 1}, {"a": Decimal("2.10")}]
    assert "Line 3 of a response is skipped" in caplog.text


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": 1}\n{"a": "\xe9"}\n',
        '{"a": "é"}\n'.encode("utf-16"),
        '{"a": "\ud800"}\n'.encode("utf-8", "surrogatepass"),
    ],
)
def test_line_that_is_not_text_in_the_encoding_is_an_error(body: bytes) -> None:
    """Before, such lines were skipped with a warning, as if they were not JSON."""
    with pytest.raises(FatalAPIError, match="cannot be read: 'utf-8' codec can't decode byte"):
        decode(JsonlDecoder(), body)


@pytest.mark.parametrize("parser", [JsonParser(), JsonLineParser(), JsonItemsDecoder("a")])
def test_byte_order_mark_before_json_is_ignored(parser: Any) -> None:
    documents = list(parser.parse(io.BytesIO(b'\xef\xbb\xbf{"a": [1]}\n')))
    assert documents in ([{"a": [1]}], [1])


def test_json_lines_in_an_encoding_with_other_line_breaks_are_rejected() -> None:
    """Before, every line was skipped with a warning."""
    assert JsonLineParser(encoding="utf-8-sig").encoding
    with pytest.raises(ManifestError, match="'utf-16': JSON Lines are read only in encodings"):
        JsonLineParser(encoding="utf-16")


def test_iterable_decoder_yields_a_record_per_line():
    body = "a@x.test\r\nb@x.test\n"
    assert decode(IterableDecoder(), body) == [{"record": "a@x.test"}, {"record": "b@x.test"}]


def test_json_items_decoder_yields_the_elements_of_a_nested_list():
    assert decode(JsonItemsDecoder("data.users"), '{"data": {"users": [1, 2]}}') == [1, 2]
    assert decode(JsonItemsDecoder("data.users"), "{}") == []


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
def test_csv_decoder_uses_the_first_row_as_keys(decoder, body, rows):
    assert decode(decoder, body) == rows


def test_csv_delimiter_must_be_one_character():
    with pytest.raises(ManifestError, match="one character"):
        CsvDecoder(delimiter="||")


@pytest.mark.parametrize("encoding", ["nope", "rot13", "undefined", "a\0b", "\ud800"])
@pytest.mark.parametrize(
    "decoder",
    [CsvDecoder, CsvParser, JsonLineParser, JsonParser, partial(JsonItemsDecoder, items_path="a")],
)
def test_unknown_encoding_is_a_manifest_error(decoder: Any, encoding: str) -> None:
    with pytest.raises(ManifestError, match="must be the name of a text encoding"):
        decoder(encoding=encoding)


def test_encoding_with_several_bytes_per_character_is_accepted() -> None:
    assert list(CsvParser(encoding="utf-16").parse(io.BytesIO("id\n1\n".encode("utf-16")))) == [
        {"id": "1"}
    ]


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
        ("<!DOCTYPE r [<!ENTITY e 'long'>]><r a='&e;x'/>", {"r": {"@a": "longx"}}),
    ],
)
def test_xml_decoder_maps_attributes_texts_and_lists(body, document):
    """As in Airbyte's YAML reference; entities of the document are expanded in attributes only."""
    assert decode(XmlDecoder(), body, "text/xml") == [document]


def test_xml_is_read_in_the_charset_of_the_response():
    body = "<r>é</r>".encode("latin-1")
    assert decode(XmlDecoder(), body, "text/xml; charset=latin-1") == [{"r": "é"}]
    assert decode(XmlDecoder(), "") == []
    for content, kind in (
        ("<r>", ""),
        ("<r/>", "text/xml; charset=utf-32"),
        ("<r/>", "a; charset=x"),
    ):
        with pytest.raises(FatalAPIError, match="not XML"):
            decode(XmlDecoder(), content, kind)


@pytest.mark.parametrize("packed", [True, False])
def test_gzip_decoder_also_reads_uncompressed_bodies(packed):
    body = b"a,b\n1,2\n"
    body = gzip.compress(body) if packed else body
    assert decode(GzipDecoder(CsvDecoder()), body) == [{"a": "1", "b": "2"}]
    assert decode(CompositeRawDecoder(GzipParser(CsvParser())), body) == [{"a": "1", "b": "2"}]


def test_zipfile_decoder_reads_every_file_of_the_archive():
    body = make_zip(one=b'{"id": 1}', two=gzip.compress(b'[{"id": 2}]'))
    assert decode(ZipfileDecoder(GzipDecoder(JsonDecoder())), body) == [{"id": 1}, {"id": 2}]
    assert decode(ZipfileDecoder(parser=JsonLineParser()), make_zip(a=b"{}\n1")) == [{}, 1]
    with pytest.raises(FatalAPIError, match="zip archive"):
        decode(ZipfileDecoder(JsonParser()), "no archive")
    with pytest.raises(ManifestError, match="decoder is missing"):
        ZipfileDecoder()


def test_gzip_file_with_content_encoding_is_decompressed_twice():
    """The client removes the Content-Encoding, the decoder decompresses the file in it."""
    body = gzip.compress(gzip.compress(b'{"id": 1}\n{"id": 2}'))
    with serving() as server:
        server.answers(Reply(body, headers={"Content-Encoding": "gzip"}))
        response = requests.get(server.url, timeout=10)
    assert list(GzipDecoder(JsonlDecoder()).decode(response)) == [{"id": 1}, {"id": 2}]


def test_xml_that_needs_too_much_memory_when_parsed_is_rejected():
    """SEC13: elements with attributes become dicts that are thirty times as large as their text."""
    body = b"<r>" + b'<a b=""/>' * 2_000 + b"</r>"
    small = JSONResponse.of(make_response(body, "text/xml"), max_bytes=len(body))
    with pytest.raises(ResponseTooLargeError, match=r"XML .* raise max_response_bytes"):
        list(XmlDecoder().decode(small))
    large = JSONResponse.of(make_response(body, "text/xml"), max_bytes=100 * len(body))
    assert len(next(iter(XmlDecoder().decode(large)))["r"]["a"]) == 2_000


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
def test_xml_whose_entities_could_fill_the_memory_is_rejected(encoding):
    """SEC13: an attribute may repeat an entity until it has a hundred times the document's size."""
    kind = f"text/xml; charset={encoding}"
    declared = (
        f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE r [<!ENTITY e "{"x" * 999}">]>'
    )
    body = f"{declared}<r a='{'&e;' * 80}'/>".encode(encoding)
    large = JSONResponse.of(make_response(body, kind), max_bytes=100 * len(body))
    assert list(XmlDecoder().decode(large)) == [{"r": {"@a": "x" * 79_920}}]
    small = JSONResponse.of(make_response(body, kind), max_bytes=40 * len(body))
    with pytest.raises(
        ResponseTooLargeError, match=r"XML with entities .* raise max_response_byte"
    ):
        list(XmlDecoder().decode(small))
