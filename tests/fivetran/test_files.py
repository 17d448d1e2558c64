"""Reading batch files: decryption, decompression, CSV parsing, and errors."""

from __future__ import annotations

import contextlib
import csv
import os
import re
import socket
import traceback
from collections.abc import Callable, Iterator
from io import StringIO
from itertools import product
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tap_core.protocols.fivetran.enums import Compression, DataType, Encryption
from target_spark.errors import BatchFileLoadError
from target_spark.fivetran import file_reader
from target_spark.fivetran.batch_frame import _read_rows, find_file_error, validate_files
from target_spark.fivetran.batch_request import FileKind, FileParams, RequestFile
from target_spark.fivetran.file_reader import BLOCK_BYTES, file_error, read_blocks, split_rows
from target_spark.fivetran.row_reader import OP, ORDINAL, RowReader, check_header, unmodified_flag
from target_spark.fivetran.table_schema import DestinationColumn, FivetranSchema
from tests.fivetran.batch_files import (
    NULL,
    NULL_TEXT,
    UNMODIFIED,
    UNMODIFIED_TEXT,
    Cell,
    encrypt,
    format_csv,
    new_key,
    write_batch_file,
)

KEY = new_key()
PLAIN_PARAMS = FileParams(null=NULL_TEXT, unmodified=UNMODIFIED_TEXT)
ENCRYPTED_PARAMS = FileParams(Compression.ZSTD, Encryption.AES, NULL_TEXT, UNMODIFIED_TEXT)
ID = DestinationColumn("id", DataType.LONG, is_key=True, column="id")
NAME = DestinationColumn("name", DataType.STRING, column="name_")
DATA = DestinationColumn("data", DataType.BINARY, column="data")
PEOPLE = FivetranSchema((ID, NAME, DATA))
ROWS = [[str(number), f'"{number}"\nand more, ' * (number % 5)] for number in range(3000)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "batch_1.csv.zst.aes"


def read_texts(
    path: Path, *names: str, params: FileParams = PLAIN_PARAMS, size: int = BLOCK_BYTES
) -> list[list[str]]:
    """Return the rows of a file of text columns; the first column is the key."""
    columns = [DestinationColumn(name, DataType.STRING, column=name) for name in names]
    reader = RowReader(params, FivetranSchema(tuple(columns)), has_updates=False)
    parts = reader.rows(RequestFile(str(path), FileKind.REPLACE), 0, size)
    return [[row[name] for name in names] for part in parts for row in part.to_pylist()]


def write_and_read_people(
    path: Path, kind: FileKind, names: str, *rows: list[Cell], size: int = BLOCK_BYTES
) -> list[list[object]]:
    """Return rows of a file about people: id, name, data, and the two unmodified flags."""
    write_batch_file(path, names.split(), rows, compression=Compression.OFF)
    return read_people(path, kind, size)


def read_people(
    path: Path, kind: FileKind = FileKind.REPLACE, size: int = BLOCK_BYTES
) -> list[list[object]]:
    parts = RowReader(PLAIN_PARAMS, PEOPLE, has_updates=True).rows(
        RequestFile(str(path), kind), 0, size
    )
    columns = ("id", "name_", "data", unmodified_flag(NAME), unmodified_flag(DATA))
    return [[row[name] for name in columns] for part in parts for row in part.to_pylist()]


# ------------------------------------------------------------------ blocks and rows


@pytest.mark.parametrize("compression, frames", list(product(Compression, (1, 3))))
@pytest.mark.parametrize("key", [None, new_key(), os.urandom(16)], ids=["plain", "256", "128"])
def test_every_compression_and_encryption_is_read(
    path: Path, compression: Compression, frames: int, key: bytes | None
) -> None:
    """F39: ZSTD, GZIP or none, in one or several frames of unknown size; with AES or without."""
    write_batch_file(path, ["id", "text"], ROWS, key=key, compression=compression, frames=frames)
    file = RequestFile(str(path), FileKind.REPLACE, key)
    params = FileParams(compression, Encryption.NONE if key is None else Encryption.AES)
    for size in (48, 1000, BLOCK_BYTES):
        assert b"".join(read_blocks(file, params, size)) == format_csv(["id", "text"], ROWS)


def test_zstd_frames_of_the_test_data_omit_the_content_size(path: Path) -> None:
    """F39: the frame header has neither a content size nor a checksum."""
    write_batch_file(path, ["id"], [["1"]])
    descriptor = path.read_bytes()[4]
    assert descriptor & 0b1110_0000 == 0


special_texts = st.text(alphabet=st.sampled_from('ab,"\n\r\\\u2028\u0085 é'), max_size=8)


@given(
    rows=st.lists(st.lists(special_texts, min_size=2, max_size=2), max_size=12),
    size=st.integers(1, 40),
)
@example(rows=[["", "\n"], ['"', '"\n"'], ["\n\n", '""']], size=1)
def test_rows_are_split_independently_of_chunk_boundaries(rows: list[list[str]], size: int) -> None:
    """F38: a line break inside a cell does not end a row."""
    content = format_csv(["one", "two"], rows)
    chunks = (content[start : start + size] for start in range(0, len(content), size))
    pieces = list(split_rows(chunks, AssertionError))
    assert b"".join(pieces) == content
    parsed = [list(csv.reader(StringIO(piece.decode(), newline=""))) for piece in pieces]
    assert [row for piece in parsed for row in piece] == [["one", "two"], *rows]


def test_crlf_and_a_missing_final_line_break_are_accepted(path: Path) -> None:
    path.write_bytes(b'id,name\r\n1,"a\r\nb"\r\n2,c')
    assert read_texts(path, "id", "name") == [["1", "a\r\nb"], ["2", "c"]]


@pytest.mark.parametrize("size", [BLOCK_BYTES, 1 << 20])
def test_cell_of_many_megabytes_is_read_completely(path: Path, size: int) -> None:
    """F38: a cell may be far larger than a read block."""
    large = '{"text": "a line\nof ü"}' * 200_000
    write_batch_file(path, ["id", "name"], [["1", "x"], ["2", large], ["3", large]], frames=2)
    assert read_texts(path, "id", "name", params=FileParams(Compression.ZSTD), size=size) == [
        ["1", "x"],
        ["2", large],
        ["3", large],
    ]


def test_unclosed_quoted_cell_fails_before_the_whole_file_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("target_spark.fivetran.file_reader._MAX_ROW_BYTES", 1 << 20)
    parts = (b'"' + b"x" * 1000 for _ in range(1)), (b"y" * 1000 for _ in range(10_000))
    bytes_read = [0]

    def read_chunks() -> Iterator[bytes]:
        for part in parts:
            for chunk in part:
                bytes_read[0] += len(chunk)
                yield chunk

    with pytest.raises(ValueError, match="is not closed"):
        list(split_rows(read_chunks(), ValueError))
    assert bytes_read[0] < 1 << 21


def test_file_is_streamed_without_temporary_files(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F41: only the encrypted file is open during reading, and memory holds one block of rows."""
    write_batch_file(path, ["id", "name"], ([str(n), "text " * 40] for n in range(40_000)), key=KEY)
    temporary_folder = tmp_path / "temporary"
    temporary_folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary_folder))
    before = list_open_files()
    reader = RowReader(ENCRYPTED_PARAMS, FivetranSchema((ID, NAME)), has_updates=False)
    rows = reader.rows(RequestFile(str(path), FileKind.REPLACE, KEY), 0, 1 << 20)
    first = next(rows)
    assert first.nbytes < 2 << 20
    assert list_open_files() - before == {str(path)}
    assert first.num_rows + sum(part.num_rows for part in rows) == 40_000
    assert list_open_files() <= before
    assert [path, *temporary_folder.iterdir()] == [p for p in tmp_path.rglob("*") if p.is_file()]


def list_open_files() -> set[str]:
    """Return the regular files that this process has open."""
    return {str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_file()}


# ------------------------------------------------------------------ unreadable files


def test_error_names_the_file_without_its_folder_or_key() -> None:
    file = RequestFile("some/folder/batch_7.csv", FileKind.UPDATE, KEY)
    assert str(file_error(file, "is odd")) == "The batch file batch_7.csv is odd."
    assert repr(KEY)[2:-1] not in repr(file)


TRUNCATED = "is cut off|does not end as AES"


@pytest.mark.parametrize(
    "share, expected", [(0, "is empty"), (0.3, TRUNCATED), (0.9999, TRUNCATED)]
)
@pytest.mark.parametrize("compression", [Compression.ZSTD, Compression.GZIP])
@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
def test_truncated_file_is_an_error(
    path: Path, key: bytes | None, compression: Compression, share: float, expected: str
) -> None:
    """F42: wherever the file ends."""
    write_batch_file(path, ["id", "text"], ROWS, key=key, compression=compression)
    packed = path.read_bytes()
    path.write_bytes(packed[: int(len(packed) * share)])
    params = FileParams(compression, Encryption.NONE if key is None else Encryption.AES)
    with pytest.raises(
        BatchFileLoadError, match=rf"^The batch file batch_1.csv.zst.aes .*({expected})"
    ):
        list(read_blocks(RequestFile(str(path), FileKind.REPLACE, key), params))


@pytest.mark.parametrize("cut", [16, 160, 4992])
def test_encrypted_csv_truncated_at_an_aes_block_is_an_error(path: Path, cut: int) -> None:
    """F42: also without compression, when the length is a multiple of the block size."""
    write_batch_file(path, ["id", "text"], ROWS, key=KEY, compression=Compression.OFF)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(BatchFileLoadError, match="does not end with PKCS5 padding"):
        list(
            read_blocks(
                RequestFile(str(path), FileKind.REPLACE, KEY), FileParams(encryption=Encryption.AES)
            )
        )


@pytest.mark.parametrize("compression", Compression)
def test_wrong_key_is_reported_as_the_likely_cause(path: Path, compression: Compression) -> None:
    """F42: the header cannot be read with the key of another file."""
    write_batch_file(path, ["id", "name"], ROWS, key=KEY, compression=compression)
    file = RequestFile(str(path), FileKind.REPLACE, new_key())
    params = FileParams(compression, Encryption.AES, NULL_TEXT)
    with pytest.raises(BatchFileLoadError, match=r"[Tt]he key belongs to another file"):
        check_header(file, params, FivetranSchema((ID, NAME)))


@pytest.mark.parametrize(
    "key, expected",
    [(None, "the call has no key for it"), (b"short", "a key of 5 bytes, not 16, 24")],
)
def test_missing_or_short_key_is_an_error(path: Path, key: bytes | None, expected: str) -> None:
    """F42: an encrypted file cannot be read without its key."""
    write_batch_file(path, ["id", "name"], [], key=KEY)
    with pytest.raises(BatchFileLoadError, match=expected):
        list(read_blocks(RequestFile(str(path), FileKind.REPLACE, key), ENCRYPTED_PARAMS))


def test_missing_file_or_folder_is_an_error(tmp_path: Path) -> None:
    """F42: the path does not exist, or is a folder."""
    with pytest.raises(BatchFileLoadError, match=r"gone\.csv does not exist"):
        list(read_blocks(RequestFile(str(tmp_path / "gone.csv"), FileKind.REPLACE), PLAIN_PARAMS))
    with pytest.raises(BatchFileLoadError, match="cannot be read: Is a directory"):
        list(read_blocks(RequestFile(str(tmp_path), FileKind.REPLACE), PLAIN_PARAMS))
    with pytest.raises(BatchFileLoadError, match="its name is not a file name"):
        list(read_blocks(RequestFile("/a\0b.csv", FileKind.REPLACE), PLAIN_PARAMS))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file_is_an_error(path: Path) -> None:
    """F42: the error names the missing permission."""
    write_batch_file(path, ["id"], [])
    path.chmod(0)
    with pytest.raises(BatchFileLoadError, match="may not be read: give read permission"):
        list(read_blocks(RequestFile(str(path), FileKind.REPLACE), PLAIN_PARAMS))


def test_damaged_or_differently_compressed_file_is_an_error(path: Path) -> None:
    """F42: the file is not ZSTD, or has other bytes after the ZSTD frames."""
    path.write_bytes(b"id,name\n1,x\n")
    with pytest.raises(
        BatchFileLoadError, match=r"cannot be decompressed as ZSTD\. The file is damaged"
    ):
        list(read_blocks(RequestFile(str(path), FileKind.REPLACE), FileParams(Compression.ZSTD)))
    write_batch_file(path, ["id", "name"], ROWS)
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(BatchFileLoadError, match=r"cannot be decompressed|is cut off"):
        list(read_blocks(RequestFile(str(path), FileKind.REPLACE), FileParams(Compression.ZSTD)))


# ------------------------------------------------------------------ headers

INVALID_HEADERS = [
    (FileKind.REPLACE, b"id,name\n1,x\n", "lacks columns that the table has: data"),
    (FileKind.UPDATE, b"name,data\nx,\n", "lacks columns that the table has: id"),
    (FileKind.DELETE, b"name\nx\n", "lacks columns that the table has: id"),
    (FileKind.DELETE, b"id,id\n1,1\n", "names a column twice: id"),
    (
        FileKind.DELETE,
        b"id,secret,ID\n1,1,2\n",
        "that the table does not have, at positions 2, 3",
    ),
    (FileKind.DELETE, b"1,secret\n2,x\n", "a header that names no column of the table, or has no"),
    (FileKind.DELETE, b"\n1\n", "a header that names no column of the table, or has no header"),
    (FileKind.DELETE, b"", "is empty: it has no header"),
    (FileKind.DELETE, b"\xff\xfe\x00id\n1\n", "has no header of UTF-8 text"),
]


@pytest.mark.parametrize("kind, content, expected", INVALID_HEADERS)
def test_header_that_does_not_match_the_table_is_an_error(
    path: Path, kind: FileKind, content: bytes, expected: str
) -> None:
    """F42: the error does not repeat names from the header."""
    path.write_bytes(content)
    for check in (
        lambda: check_header(RequestFile(str(path), kind), PLAIN_PARAMS, PEOPLE),
        defer_read_people(path, kind),
    ):
        with pytest.raises(BatchFileLoadError, match=re.escape(expected)) as caught:
            check()
        assert "secret" not in str(caught.value)


def defer_read_people(path: Path, kind: FileKind) -> Callable[[], object]:
    return lambda: read_people(path, kind)


def test_error_lists_only_the_first_missing_columns(path: Path) -> None:
    schema = FivetranSchema(
        (ID, *(DestinationColumn(f"c{n}", DataType.INT, column=f"c{n}") for n in range(2000)))
    )
    path.write_bytes(b"id\n")
    with pytest.raises(BatchFileLoadError, match=r"c0, c1, c2, c3, c4 and 1995 more\.$"):
        check_header(RequestFile(str(path), FileKind.REPLACE), PLAIN_PARAMS, schema)


def test_header_may_be_quoted_in_any_order_and_start_with_a_bom(path: Path) -> None:
    """F38: the header defines the order of columns; a byte order mark is ignored."""
    path.write_bytes('\ufeff"na""me,\nof it",id\r\nx,1\n'.encode())
    assert read_texts(path, "id", 'na"me,\nof it') == [["1", "x"]]


def test_file_with_only_a_header_has_no_rows(path: Path) -> None:
    assert write_and_read_people(path, FileKind.REPLACE, "id name data") == []


def test_history_table_requires_its_version_columns(path: Path) -> None:
    """F44: an earliest-start file needs the start column, a delete file only the end column."""
    start, end = (
        DestinationColumn(
            f"_fivetran_{name}", DataType.UTC_DATETIME, is_key=name == "start", column=name
        )
        for name in ("start", "end")
    )
    schema = FivetranSchema((ID, start, end))
    path.write_bytes(b"id\n1\n")
    for kind, missing in ((FileKind.EARLIEST_START, "start"), (FileKind.DELETE, "end")):
        with pytest.raises(BatchFileLoadError, match=f"lacks .*: _fivetran_{missing}\\."):
            check_header(RequestFile(str(path), kind), PLAIN_PARAMS, schema)
    write_batch_file(
        path,
        ["id", "_fivetran_end", "_fivetran_start"],
        [["1", "2024-01-08T18:52Z", NULL]],
        compression=Compression.OFF,
    )
    reader = RowReader(PLAIN_PARAMS, schema, has_updates=False)
    (rows,) = reader.rows(RequestFile(str(path), FileKind.DELETE), 0)
    assert rows.column("start").null_count == 1
    with pytest.raises(BatchFileLoadError, match="no value in row 1, column _fivetran_start"):
        list(reader.rows(RequestFile(str(path), FileKind.EARLIEST_START), 0))


# ------------------------------------------------------------------ cells


@pytest.mark.parametrize("size", [1, BLOCK_BYTES])
@pytest.mark.parametrize("null", ["null", ""])
def test_special_characters_are_kept(path: Path, null: str, size: int) -> None:
    """F38: quotes, backslashes and line breaks are kept; empty text is not null."""
    special_texts = [
        'say "x"', '"', "\\", '\\"', "a\nb", "\r\n", "a\u2028b\u0085c\u000bd", "\ufeffx", "",
        " x ", "NULL", "\x00", "👩‍🚀", "1,5", "'", '""', "#", "=1+1",
    ]  # fmt: skip
    rows = [[text, text] for text in special_texts] + [[NULL, "x"]]
    write_batch_file(path, ["a", "b"], rows, compression=Compression.OFF, null=null)
    assert read_texts(path, "a", "b", params=FileParams(null=null), size=size) == rows


@pytest.mark.parametrize(
    "null, content, expected",
    [
        ("none", b'a,b\nnone,"none"\n,""\n', [[None, None], ["", ""]]),
        ("", b'a,b\n,""\nnone,\n', [[None, ""], ["none", None]]),
        ("none", b'a\nnone\n\n""\n', [[None], [""], [""]]),
        ("", b'a\n\n""\nx\n', [[None], [""], ["x"]]),
    ],
)
def test_null_text_is_the_one_given_by_the_call(
    path: Path, null: str, content: bytes, expected: list[list[str | None]]
) -> None:
    """F38: quoted or not; if the null text is empty, a quoted empty cell is empty text."""
    path.write_bytes(content)
    names = ["a", "b"][: len(expected[0])]
    assert read_texts(path, *names, params=FileParams(null=null)) == expected


def test_update_flags_unmodified_cells_and_missing_columns(path: Path) -> None:
    """F36: their bytes are not decoded."""
    rows: list[list[Cell]] = [["1", UNMODIFIED, UNMODIFIED], ["2", NULL, "AAE="]]
    expected = [[1, None, None, True, True], [2, None, b"\x00\x01", False, False]]
    assert write_and_read_people(path, FileKind.UPDATE, "id name data", *rows) == expected
    assert write_and_read_people(path, FileKind.UPDATE, "name id", ["x", "1"]) == [
        [1, "x", None, False, True]
    ]


def test_unmodified_text_is_ordinary_text_outside_updates(path: Path) -> None:
    """F35 to F37: other files have no unmodified cells, and a missing column is null."""
    rows = write_and_read_people(
        path, FileKind.REPLACE, "id name data", ["1", UNMODIFIED_TEXT, NULL]
    )
    assert rows == [[1, UNMODIFIED_TEXT, None, False, False]]
    assert write_and_read_people(path, FileKind.DELETE, "id", ["1"]) == [
        [1, None, None, False, False]
    ]


def test_nothing_is_unmodified_if_the_call_gives_no_unmodified_text(path: Path) -> None:
    path.write_bytes(b'id,name\n1,""\n')
    reader = RowReader(FileParams(null="null"), FivetranSchema((ID, NAME)), has_updates=True)
    (rows,) = reader.rows(RequestFile(str(path), FileKind.UPDATE), 0)
    assert rows.to_pylist()[0] == {
        "id": 1,
        "name_": "",
        unmodified_flag(NAME): False,
        OP: int(FileKind.UPDATE),
        ORDINAL: 0,
    }


def test_same_text_for_null_and_unmodified_is_an_error(path: Path) -> None:
    """F36: otherwise an unmodified value could become null."""
    path.write_bytes(b"id\n1\n")
    params = FileParams(null="same", unmodified="same")
    check_header(RequestFile(str(path), FileKind.DELETE), params, PEOPLE)
    with pytest.raises(BatchFileLoadError, match="the same text for null and unmodified"):
        check_header(RequestFile(str(path), FileKind.UPDATE), params, PEOPLE)


def test_row_ordinals_include_the_number_of_the_file(path: Path) -> None:
    write_batch_file(path, ["id"], [["7"], ["8"], ["9"]], compression=Compression.OFF)
    rows = RowReader(PLAIN_PARAMS, FivetranSchema((ID,)), has_updates=False).rows(
        RequestFile(str(path), FileKind.DELETE), 2, 1
    )
    result = [row for part in rows for row in part.to_pylist()]
    assert [row[ORDINAL] for row in result] == [(2 << 40) + n for n in range(3)]
    assert {row[OP] for row in result} == {int(FileKind.DELETE)}


# ------------------------------------------------------------------ invalid rows

INVALID_ROWS = [
    (FileKind.REPLACE, b"3\n", "another number of cells in row 3 than in its header"),
    (FileKind.REPLACE, b"3,secret,,\n", "another number of cells in row 3 than in its header"),
    (FileKind.REPLACE, b"3,secret\xff,AAE=\n", "is not UTF-8 in row 3"),
    (FileKind.REPLACE, b'3,"secret,AAE=\n', "ends inside a quoted cell"),
    (FileKind.REPLACE, b"3x,secret,AAE=\n", "a cell in row 3, column id, that is not a LONG"),
    (FileKind.REPLACE, b"3,secret,#\n", "a cell in row 3, column data, that is not base64"),
    (
        FileKind.REPLACE,
        NULL_TEXT.encode() + b",secret,\n",
        "no value in row 3, column id, which is",
    ),
    (FileKind.UPDATE, UNMODIFIED_TEXT.encode() + b",secret,\n", "no value in row 3, column id, wh"),
    (FileKind.DELETE, NULL_TEXT.encode() + b",secret,\n", "no value in row 3, column id, which is"),
]


@pytest.mark.parametrize("size", [1, BLOCK_BYTES])
@pytest.mark.parametrize("kind, row, expected", INVALID_ROWS)
def test_invalid_row_is_reported_by_number_and_column(
    path: Path, kind: FileKind, row: bytes, expected: str, size: int
) -> None:
    """F42: the error does not repeat the content of the row."""
    path.write_bytes(b'id,name,data\n1,"a\nb",\n2,x,\n' + row)
    with pytest.raises(BatchFileLoadError, match=re.escape(expected)) as caught:
        read_people(path, kind, size)
    assert "secret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("kind", [FileKind.REPLACE, FileKind.UPDATE, FileKind.DELETE])
def test_keys_that_are_distinct_only_beyond_the_microsecond_are_an_error(
    path: Path, kind: FileKind
) -> None:
    """Cut to microseconds, two rows with different keys would become one; zeros do not matter."""
    key = DestinationColumn("at", DataType.UTC_DATETIME, is_key=True, column="at")
    value = DestinationColumn("seen", DataType.UTC_DATETIME, column="seen")
    reader = RowReader(PLAIN_PARAMS, FivetranSchema((key, value)), has_updates=True)
    file = RequestFile(str(path), kind)
    nanoseconds = "2024-01-08T18:52:07.7546851Z"
    path.write_text(f"at,seen\n2024-01-08T18:52:07.754685000Z,{nanoseconds}\n")
    assert sum(part.num_rows for part in reader.rows(file, 0)) == 1
    path.write_text(f"at,seen\n2024-01-08T18:52:07Z,\n{nanoseconds},\n")
    with pytest.raises(
        BatchFileLoadError, match=r"than microseconds in row 2, column at"
    ) as caught:
        list(reader.rows(file, 0))
    assert nanoseconds not in str(caught.value)


def test_pkcs5_padding_is_removed(path: Path) -> None:
    """F39: also when the padding is a whole block."""
    for length in range(15, 33):
        content = b"id,name\n1," + b"x" * length + b"\n"
        path.write_bytes(encrypt(content, KEY))
        params = FileParams(encryption=Encryption.AES)
        assert (
            b"".join(read_blocks(RequestFile(str(path), FileKind.REPLACE, KEY), params)) == content
        )


def test_worker_error_contains_no_data_of_the_row(tmp_path: Path) -> None:
    """F3: errors of a worker process, also unexpected ones, contain no values of the row."""
    (tmp_path / "batch_1.csv").write_text("id\nsecret\n")
    file = RequestFile(str(tmp_path / "batch_1.csv"), FileKind.REPLACE)
    file_numbers = pa.record_batch([pa.array([0])], names=["id"])
    params = FileParams(compression=cast("Compression", "secret"))  # which no call can name
    with pytest.raises(Exception, match=r"batch_1\.csv cannot be read: KeyError") as caught:
        list(_read_rows(RowReader(params, PEOPLE, has_updates=False), [file], iter([file_numbers])))
    assert "secret" not in "".join(traceback.format_exception(caught.value))
    commit_error = RuntimeError("the commit failed")
    commit_error.__cause__ = caught.value
    load_error = find_file_error(commit_error)
    assert isinstance(load_error, BatchFileLoadError)
    assert str(load_error).endswith("KeyError. This is a bug of the destination.")
    assert find_file_error(ValueError("something else")) is None


@pytest.mark.parametrize("kind", ["pipe", "device", "socket"])
def test_pipe_device_or_socket_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    """Opening a pipe would block, and reading a device would never end."""
    path = tmp_path / "batch.csv"
    with contextlib.ExitStack() as stack:
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "device":
            path.symlink_to("/dev/zero")
        else:
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(path))
        with pytest.raises(
            BatchFileLoadError, match=r"batch\.csv cannot be read: it is not a regular file"
        ):
            list(read_blocks(RequestFile(str(path), FileKind.REPLACE), PLAIN_PARAMS))


def test_small_file_that_decompresses_to_a_huge_one_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_batch_file(path, ["id"], [["1"]] * 300_000)
    assert path.stat().st_size < 2_000
    file, params = RequestFile(str(path), FileKind.REPLACE), FileParams(Compression.ZSTD)
    assert sum(map(len, read_blocks(file, params))) == 600_003
    monkeypatch.setattr(file_reader, "_MAX_CONTENT_BYTES", 300_000)
    with pytest.raises(BatchFileLoadError, match=r"has more than 0 GB of rows when decompressed"):
        list(read_blocks(file, params, 1_000))


def test_header_of_a_file_that_is_not_a_batch_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "shadow"
    path.write_text("root:$6$MARKED:19000:0:99999:7:::\n")
    with pytest.raises(BatchFileLoadError) as caught:
        validate_files([RequestFile(str(path), FileKind.REPLACE)], PLAIN_PARAMS, PEOPLE)
    assert "MARKED" not in str(caught.value)
