"""Compressed responses: limits of memory and time, and errors for damaged ones."""

from __future__ import annotations

import csv
import gzip
import io
import os
import struct
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from tap_core.exceptions import FatalAPIError
from tap_core.http.response import JSONResponse
from tap_core.http.response_limits import Deadline, ResponseLimits, ResponseTooSlowError
from tap_core.manifest.components.decoders import (
    CompositeRawDecoder,
    CsvDecoder,
    GzipDecoder,
    GzipParser,
    IterableDecoder,
    JsonDecoder,
    JsonItemsDecoder,
    JsonlDecoder,
    JsonLineParser,
    JsonParser,
    ZipfileDecoder,
)
from tap_core.manifest.components.file_extractors import ResponseToFileExtractor
from tap_core.manifest.errors import ManifestError
from tests.http.server import Reply, serving
from tests.manifest.running import manifest, run, stream
from tests.manifest.test_decoders import decode, make_response, make_zip

ROOT = Path(__file__).parents[2]
SMALL = {"max_unpacked_bytes": 1000}


def decode_error(decoder: Any, body: bytes) -> str:
    with pytest.raises(FatalAPIError) as error:
        decode(decoder, body)
    assert error.value.response is not None
    return str(error.value)


@pytest.mark.parametrize(
    "decoder, body",
    [
        (GzipDecoder(JsonDecoder(), **SMALL), b'["' + b"x" * 1000 + b'"]'),
        (GzipDecoder(JsonItemsDecoder("a"), **SMALL), b'{"a": ["' + b"x" * 1000 + b'"]}'),
        (GzipDecoder(JsonlDecoder(), **SMALL), b'{"a": "' + b"x" * 1000 + b'"}\n{}'),
        (GzipDecoder(CsvDecoder(), **SMALL), b"a\n" + b"x" * 1001 + b"\n1\n"),
        (GzipDecoder(CsvDecoder(), **SMALL), b'a\n"' + b"x\n" * 501),
        (GzipDecoder(CsvDecoder(), **SMALL), b"a\n" + b"\n" * 60 + b"1\n"),
        (CompositeRawDecoder(GzipParser(JsonLineParser(), **SMALL)), b"[" + b"1," * 501 + b"1]"),
        (GzipDecoder(JsonDecoder(max_unpacked_bytes=1000)), b"[" + b"1," * 501 + b"1]"),
    ],
)
def test_length_of_a_document_line_or_row_is_limited(decoder, body):
    """The error names the limit and the option that raises it."""
    message = decode_error(decoder, gzip.compress(body))
    assert "is longer than 1,000 bytes; raise max_unpacked_bytes of the decoder" in message


def test_number_of_rows_is_not_limited():
    """The limit applies to the data that is held at once."""
    body = b"a,b\n" + b"1,2\n" * 5000
    assert len(decode(GzipDecoder(CsvDecoder(), **SMALL), body)) == 5000
    lines = b"".join(b'{"id": %d}\n' % n for n in range(5000))
    assert len(decode(GzipDecoder(JsonlDecoder(), **SMALL), gzip.compress(lines))) == 5000
    small = make_zip(a=b"[1]", b=b"[2]" + b" " * 900)
    assert decode(ZipfileDecoder(JsonParser(), **SMALL), small) == [1, 2]


def test_extreme_compression_ratio_is_rejected():
    """SEC13: a response that decompresses to hundreds of times its size is refused."""
    body = gzip.compress(b"a\n" * 2_000_000)
    assert "200 times its size" in decode_error(GzipDecoder(CsvDecoder(), **SMALL), body)
    archive = make_zip(**{f"f{n}": b" " * 900 for n in range(3)}, bomb=b"[]" + b" " * 900)
    assert decode(ZipfileDecoder(JsonParser(), **SMALL), archive) == []
    bomb = make_zip(a=b"\n" * 900_000)
    limited = ZipfileDecoder(JsonlDecoder(), max_unpacked_bytes=10_000)
    assert "raise max_unpacked_bytes" in decode_error(limited, bomb)


def test_nested_compression_is_counted_together():
    """A bomb may consist of many small ones."""
    twice = GzipDecoder(GzipDecoder(JsonDecoder()), **SMALL)
    assert decode(twice, gzip.compress(gzip.compress(b'{"id": 1}'))) == [{"id": 1}]
    bomb = gzip.compress(gzip.compress(b"a\n" * 900_000))
    assert "200 times" in decode_error(GzipDecoder(GzipDecoder(CsvDecoder()), **SMALL), bomb)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as archive_writer:
        archive_writer.writestr("empty", b"")
        for n in range(3):
            archive_writer.writestr(f"{n}", gzip.compress(b"a\n" + b"1\n" * 40_000))
    limited = ZipfileDecoder(GzipDecoder(CsvDecoder()), max_unpacked_bytes=100_000)
    assert "200 times" in decode_error(limited, archive.getvalue())


def test_many_small_values_count_by_their_memory():
    """Empty objects need about twenty times the memory of their text."""
    body = gzip.compress(b"[" + b"{}," * 330 + b"1]")
    assert "has too many values" in decode_error(GzipDecoder(JsonDecoder(), **SMALL), body)
    row = gzip.compress(b"a\n" + b"x;" * 480 + b"\n")
    assert "a row has too many values" in decode_error(
        GzipDecoder(CsvDecoder(delimiter=";"), **SMALL), row
    )


def test_csv_header_with_too_many_columns_is_rejected():
    """Each row, however short, would become a record with all columns."""
    body = b"a," * 66_000 + b"\n" + b"1\n" * 1000
    assert "its header has 66,001 columns, more than 65,536" in decode_error(CsvDecoder(), body)
    with pytest.raises(FatalAPIError, match="66,001 columns"):
        list(ResponseToFileExtractor().extract(make_response(body)))


def damage_archive(archive: bytes, field: int, value: int) -> bytes:
    """Return the archive with a changed number in the only entry of its directory."""
    position = archive.index(b"PK\x01\x02") + field
    return archive[:position] + struct.pack("<I", value) + archive[position + 4 :]


@pytest.mark.parametrize("decoder", ["{type: CsvDecoder}", "{type: JsonlDecoder}"])
@pytest.mark.parametrize("first_member", [b"", gzip.compress(b"")])
def test_content_encoding_without_its_end_is_requested_again(tmp_path, decoder, first_member):
    """Before, the rows behind the cut were lost without an error."""
    body = b'"id"\n' if "Csv" in decoder else b""
    body += b"".join(b'{"id": %d}\n' % number for number in range(2_000))
    packed = first_member + gzip.compress(body)
    retriever = f"decoder: {decoder}\nrecord_selector: {{extractor: {{field_path: []}}}}"
    path = manifest(tmp_path, stream("items", "items", retriever=retriever))
    encoded = {"Content-Encoding": "gzip"}
    with serving() as server:
        server.answers(Reply(packed[:-500], headers=encoded), Reply(packed, headers=encoded))
        assert len(run(path, server).records("items")) == 2_000
        assert len(server.requests) == 2
        server.answers(Reply(packed[:-500], headers=encoded))
        error = run(path, server, fails=True).error
        assert "its compressed body (gzip) ends too early" in str(error)


def test_content_encoding_followed_by_other_bytes_or_without_a_body_is_read(tmp_path):
    path = manifest(
        tmp_path, stream("items", "items", retriever="decoder: {type: IterableDecoder}")
    )
    with serving() as server:
        for body in (b"", gzip.compress(b"a") + b"zz", gzip.compress(b"a") + gzip.compress(b"b")):
            server.answers(Reply(body, headers={"Content-Encoding": "gzip"}))
            run(path, server)


def test_damaged_archive_is_a_response_error():
    """An archive may have a wrong size or checksum, encryption or an unknown method, or be cut."""
    body = make_zip(a=b'{"id": 1}' * 100)
    decoder = ZipfileDecoder(JsonParser())
    for broken in (
        damage_archive(body, 24, 10),
        damage_archive(body, 24, 0xFFFFFFF0),
        damage_archive(body, 16, 1),
        damage_archive(body, 8, 1),
        damage_archive(body, 10, 99),
        damage_archive(body, 20, 5),
        body[:20] + b"\0" * 20 + body[40:],
        body[:-30],
    ):
        message = decode_error(decoder, broken)
        assert any(text in message for text in ("The response", "not JSON"))
    for packed in (gzip.compress(b"{}" * 50)[:-4], gzip.compress(b"{}" * 500)[:20] + b"x" * 9):
        assert "The response cannot be read" in decode_error(GzipDecoder(JsonlDecoder()), packed)


ROWS = b"a\n" + b"1\n" * 100_000
LINES = b'{"a": 1}\n' * 100_000
READERS = {
    "csv": (CsvDecoder(), ROWS),
    "lines": (JsonlDecoder(), LINES),
    "texts": (IterableDecoder(), LINES),
    "gzip": (GzipDecoder(CsvDecoder()), gzip.compress(ROWS)),
    "gzip in gzip": (GzipDecoder(GzipDecoder(JsonlDecoder())), gzip.compress(gzip.compress(LINES))),
    "older": (CompositeRawDecoder(GzipParser(JsonLineParser())), gzip.compress(LINES)),
    "zip": (ZipfileDecoder(JsonlDecoder()), make_zip(a=LINES)),
    "files": (ZipfileDecoder(JsonParser()), make_zip(**{f"f{n}": b"[1]" for n in range(2000)})),
}


def timed_response(
    body: bytes, seconds: float | None, *, is_file: bool = False
) -> requests.Response:
    deadline = Deadline(ResponseLimits(max_response_seconds=seconds), is_file=is_file)
    if is_file:
        deadline.count(len(body))
    return JSONResponse.of(make_response(body), None, deadline)


@pytest.mark.every_nth_case(2)
@pytest.mark.parametrize("kind", sorted(READERS))
def test_time_limit_applies_to_all_rows_of_a_response(kind):
    """SEC13: the rows of a response, compressed or not, take bounded time."""
    decoder, body = READERS[kind]
    with pytest.raises(ResponseTooSlowError, match=r"raise max_response_seconds \(here 0\.001"):
        list(decoder.decode(timed_response(body, 0.001)))
    assert list(decoder.decode(timed_response(body, 1000)))
    assert list(decoder.decode(timed_response(body, None)))


def test_time_limit_applies_to_all_rows_of_a_result_file():
    body = gzip.compress(ROWS)
    with pytest.raises(ResponseTooSlowError, match="raise max_response_seconds"):
        list(ResponseToFileExtractor().extract(timed_response(body, 0.001)))


def test_time_limit_of_rows_grows_with_the_downloaded_bytes():
    """One second is added per 64 KiB, so that reports of any size can be read."""
    body = b"a\n" + os.urandom(2_000_000).hex().encode() + b"\n" + b"1\n" * 50_000
    with pytest.raises(ResponseTooSlowError):
        list(CsvDecoder().decode(timed_response(body, 0.0001)))
    assert len(list(CsvDecoder().decode(timed_response(body, 0.0001, is_file=True)))) == 50_001


def use_cpu(seconds: float) -> None:
    start = time.thread_time()
    while time.thread_time() - start < seconds:
        pass


def read_with_work(between: Callable[[], object]) -> int:
    """Read a response with a limit of half a second, with one second of work between rows."""
    count = 0
    for count, _ in enumerate(JsonlDecoder().decode(timed_response(LINES[:100_000], 0.5)), 1):
        if not count % 500:
            use_cpu(0.05)
            between()
    return count


def test_processing_time_of_rows_counts():
    with pytest.raises(ResponseTooSlowError):
        read_with_work(lambda: None)


def test_time_of_responses_read_between_rows_does_not_count():
    """A response that is read between two rows has its own time limit."""
    decoder = JsonlDecoder()
    assert read_with_work(lambda: list(decoder.decode(timed_response(b"{}", 1)))) > 10_000


def test_waiting_of_the_consumer_does_not_count():
    """Waiting for a full output pipe is not limited."""
    count = 0
    for count, _ in enumerate(JsonlDecoder().decode(timed_response(LINES[:100_000], 0.4)), 1):
        if not count % 500:
            time.sleep(0.05)
    assert count > 10_000


def test_max_response_seconds_of_a_manifest_limits_the_rows(tmp_path: Path):
    body = gzip.compress(b"id\n" + b"1\n" * 200_000)
    decoder = "decoder: {type: GzipDecoder, decoder: {type: CsvDecoder}}"
    for seconds, is_refused in ((0.05, True), (600, False)):
        limit = f"max_response_seconds: {seconds}"
        rows = stream("items", "/items", limit, retriever=decoder)
        path = manifest(tmp_path, rows.replace("field_path: [data]", "field_path: []"))
        with serving() as server:
            server.answers(Reply(body))
            result = run(path, server, fails=is_refused)
        assert isinstance(result.error, ResponseTooSlowError) == is_refused, result.error
        assert (len(result.records("items")) == 200_000) != is_refused


def test_zip_archive_with_a_huge_directory_is_rejected():
    """Each entry needs ten times its size in memory."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a", b"{}")
    body = out.getvalue()
    entry = body[body.index(b"PK\x01\x02") : body.index(b"PK\x05\x06")]
    count = (8 << 20) // len(entry) + 1
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, len(entry) * count, 33, 0)
    head = body[: body.index(b"PK\x01\x02")]
    assert "list of files" in decode_error(ZipfileDecoder(JsonParser()), head + entry * count + end)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_bzip2_and_lzma_files_are_limited(method):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("a", b"\n" * (8 << 20) + b'{"id": 1}')
    limited = ZipfileDecoder(JsonlDecoder(), max_unpacked_bytes=1 << 20)
    assert "raise max_unpacked_bytes" in decode_error(limited, out.getvalue())


def test_csv_cells_may_exceed_the_limit_of_the_csv_module():
    """The csv module has a process-wide limit of 131,072 characters."""
    csv.field_size_limit(131_072)
    cell = "x" * 200_000
    assert decode(CsvDecoder(), f"a\n{cell}\n") == [{"a": cell}]
    rows = ResponseToFileExtractor().extract(make_response(f"a\n{cell}\n"))
    assert list(rows) == [{"a": cell}]


@pytest.mark.parametrize(
    "line",
    [
        "[" * 200_000,
        "9" * 100_000,
        '{"a": 1e99999999999999999999}',
        "[" * 800,
    ],
    ids=["levels", "digits", "exponent", "open"],
)
def test_extreme_json_line_is_skipped_with_a_warning(line, caplog):
    assert decode(JsonlDecoder(), f'{{"id": 1}}\n{line}\n{{"id": 2}}\n'.encode()) == [
        {"id": 1},
        {"id": 2},
    ]
    assert "Line 2 of a response is skipped" in caplog.text


def test_number_of_log_lines_for_invalid_lines_is_limited(caplog):
    """Ten lines are logged individually; a response without any JSON is an error."""
    assert decode(JsonlDecoder(), b"x\n" * 99 + b"1\n") == [1]
    assert len(caplog.records) == 11
    assert "lines in a row are not" in decode_error(JsonlDecoder(), b"x\n" * 200_000)


@pytest.mark.parametrize(
    "body", [b"[" * 200_000, b"[" + b"9" * 100_000 + b"]", b"[1e99999999999999999999]"]
)
def test_compressed_extreme_json_is_a_clear_error(body):
    for decoder in (JsonDecoder(), JsonItemsDecoder("a")):
        assert "is not JSON" in decode_error(GzipDecoder(decoder), gzip.compress(body))


def test_invalid_max_unpacked_bytes_is_rejected():
    for decoder_class in (JsonDecoder, CsvDecoder, IterableDecoder):
        with pytest.raises(ManifestError, match="Invalid max_unpacked_bytes 0"):
            decoder_class(max_unpacked_bytes=0)
    with pytest.raises(ManifestError, match="Invalid max_unpacked_bytes -1"):
        ZipfileDecoder(JsonParser(), max_unpacked_bytes=-1)


BOMB = """
import sys
import requests
from tap_core.exceptions import FatalAPIError
from tap_core.http.response import JSONResponse
from tap_core.http.response_limits import Deadline, ResponseLimits, ResponseTooSlowError
from tap_core.manifest.components.decoders import *
from tests.process_memory import read_peak_memory
response = requests.Response()
response.status_code = 200
response._content = open(sys.argv[1], "rb").read()
decoder = eval(sys.argv[2])
try:
    for _ in decoder.decode(response):
        pass
except FatalAPIError as error:
    print(error)
print(read_peak_memory() >> 20)
"""
MIB = 1 << 20


@pytest.mark.thorough
@pytest.mark.parametrize(
    "decoder, head, block, times",
    [
        ("GzipDecoder(JsonDecoder())", b'["', b"a" * MIB, 400),
        ("GzipDecoder(JsonlDecoder())", b'{"a":"', b"a" * MIB, 400),
        ("GzipDecoder(CsvDecoder())", b'a\n"', b"a" * MIB, 400),
        ("GzipDecoder(CsvDecoder())", b"a\n", b"ab," * (MIB // 3), 60),
        ("GzipDecoder(JsonDecoder())", b"[", b"{}," * (MIB * 21), 1),
        ("GzipDecoder(JsonDecoder())", b"[", b"1.5," * (MIB * 4), 1),
        ("GzipDecoder(JsonDecoder())", b"[", b'{"k":1.5},' * (MIB - 9), 1),
        ("GzipDecoder(JsonDecoder())", '["😀'.encode(), b"a" * MIB, 63),
        ("GzipDecoder(JsonlDecoder())", b"", b"\n" * MIB, 400),
        ("GzipDecoder(CsvDecoder())", b"a\n", b"\n" * MIB, 400),
    ],
)
def test_compressed_response_needs_at_most_600_megabytes(tmp_path, decoder, head, block, times):
    """SEC13: no compressed response takes more than 600 MB of memory."""
    packer = zlib.compressobj(9, wbits=31)
    with (tmp_path / "answer").open("wb") as out:
        out.write(packer.compress(head))
        for _ in range(times):
            out.write(packer.compress(block))
        out.write(packer.flush())
    result = subprocess.run(
        [sys.executable, "-c", BOMB, str(tmp_path / "answer"), decoder],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert int(result.stdout.split()[-1]) < 600, result.stdout
