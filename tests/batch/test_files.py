"""Writing and reading of batch files in every format, and the errors."""

from __future__ import annotations

import gzip
import io
import json
import re
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from tap_core.batch import BaseBatcher, Batcher, JSONLinesBatcher, lazy_chunked_generator
from tap_core.batch.batchers import BATCH_ENCODERS, ParquetBatcher
from tap_core.batch.encodings import BaseBatchFileEncoding, BatchConfig
from tap_core.batch.limits import FileLimits
from tap_core.batch.parquet import ParquetEncoder, read_parquet
from tap_core.batch.reader import read_rows
from tap_core.batch.storage import StorageTarget
from tap_core.batch.writer import BatchFileWriter, FileNamer, encode_row, get_format
from tap_core.exceptions import BatchFileError, ConfigurationError, DataError
from tests.batch.files import ENCODINGS, batch_config, numbers

SCHEMA = {
    "properties": {
        "id": {"type": "integer"},
        "text": {"type": ["string", "null"], "format": "date-time"},
        "on": {"type": ["boolean", "null"]},
        "price": {"type": ["number", "null"]},
        "any": {},
        "one": {"anyOf": [{"type": "integer"}, {"type": "number"}, {"type": "null"}]},
        "mixed": {"oneOf": [{"type": "integer"}, {"not": {}}]},
        "list": {"type": ["array", "null"], "items": {"type": "integer"}},
        "bare": {"type": "array"},
        "free": {"type": ["object", "null"]},
        "open": {
            "type": ["object", "null"],
            "properties": {"a": {"type": "string"}},
            "additionalProperties": True,
        },
        "deep": {
            "type": ["object", "null"],
            "properties": {
                "a": {"type": ["integer", "null"]},
                "b": {"type": ["array", "null"], "items": {"type": ["string", "null"]}},
            },
        },
    }
}


def config(root, form, compression, size=3):
    return BatchConfig.from_dict(batch_config(root, form, compression, size)["batch_config"])


def read(path, form, compression=None, **options):
    return list(read_rows(path, BaseBatchFileEncoding(form, compression), stream="s", **options))


# Batchers


@pytest.mark.parametrize("form, compression", ENCODINGS)
def test_batches_have_the_configured_size_and_contain_all_records(tmp_path, form, compression):
    batcher = Batcher("tap", "st/ream", config(tmp_path, form, compression))
    rows = [{"id": n, "at": f"2024-01-0{n + 1}", "n": n + 0.5} for n in range(7)]
    manifests = list(batcher.get_batches(iter(rows)))
    assert [len(read(path, form, compression)) for [path] in manifests] == [3, 3, 1]
    assert [row for [path] in manifests for row in read(path, form, compression)] == rows
    endings = {
        ("jsonl", "gzip"): "json.gz",
        ("jsonl", "none"): "json",
        ("parquet", "gzip"): "parquet.gz",
        ("parquet", None): "parquet",
    }
    for number, [path] in enumerate(manifests, 1):
        ending = endings[form, compression]
        assert re.search(rf"/p-tap--st_ream-[0-9a-f-]{{36}}-{number}\.{ending}$", path), path


def test_batcher_reads_records_lazily(tmp_path):
    pulled = []

    def records():
        for n in range(5):
            pulled.append(n)
            yield {"id": n}

    batches = JSONLinesBatcher("t", "s", config(tmp_path, "jsonl", "gzip", 2)).get_batches(
        records()
    )
    for expected in (2, 4, 5):
        next(batches)
        assert len(pulled) == expected


def test_format_specific_batcher_ignores_the_configured_format(tmp_path):
    [[path]] = ParquetBatcher("t", "s", config(tmp_path, "jsonl", None)).get_batches(
        iter([{"a": 1, "b": [1], "c": Decimal("1.10"), "d": "x", "e": True, "f": None, "g": 1}])
    )
    with StorageTarget("").open_address(path) as file:
        assert parquet.read_schema(file).types[:1] == [pa.int64()]
    [row] = read(path, "parquet")
    assert numbers(row) == {
        "a": 1,
        "b": [1],
        "c": Decimal("1.1"),
        "d": "x",
        "e": True,
        "f": None,
        "g": 1,
    }


def test_chunked_generator_yields_full_chunks_and_a_rest():
    assert [list(chunk) for chunk in lazy_chunked_generator("abcde", 2)] == [
        ["a", "b"],
        ["c", "d"],
        ["e"],
    ]


def test_encoders_are_found_by_entry_point(tmp_path, monkeypatch):
    info = tmp_path / "encoders-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: encoders\nVersion: 1\n")
    groups = "".join(
        f"[{group}]\nx{n} = own_encoder:Own\n" for n, group in enumerate(BATCH_ENCODERS)
    )
    (info / "entry_points.txt").write_text(groups)
    (tmp_path / "own_encoder.py").write_text(
        "from tap_core.batch import BaseBatcher\n"
        "class Own(BaseBatcher):\n"
        "    def get_batches(self, records):\n"
        "        yield [str(list(records))]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("x0", "x1"):
        assert issubclass(Batcher.get_batcher(name), BaseBatcher)
    batcher = Batcher("t", "s", config("/x", "x1", None))
    assert list(batcher.get_batches(iter([{}]))) == [["[{}]"]]
    with pytest.raises(ValueError, match="Unsupported batcher: x2"):
        Batcher.get_batcher("x2")


# Single files


def test_values_are_encoded_as_in_record_messages(tmp_path):
    names = FileNamer("t", "s", StorageTarget(str(tmp_path)))
    file = BatchFileWriter(
        config(tmp_path, "jsonl", "none"), get_format(BaseBatchFileEncoding("jsonl")), names, {}
    )
    time = datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
    values = {
        "d": Decimal("1.10"),
        "big": 10**30,
        "at": time,
        "nan": float("nan"),
        "s": {1},
        3: "ä",
    }
    file.write([encode_row(values)])
    assert Path(file.close().removeprefix("file://")).read_text() == (
        '{"d":1.10,"big":1000000000000000000000000000000,'
        '"at":"2024-01-02T03:04:05.000006+00:00","nan":null,"s":[1],"3":"ä"}\n'
    )


def test_unknown_compression_is_rejected():
    with pytest.raises(ConfigurationError, match="'gzip' or 'none', not 'zstd'"):
        get_format(BaseBatchFileEncoding("jsonl", "zstd"))


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_failed_file_is_removed_and_named_in_the_error(tmp_path, form):
    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(28, "No space left on device")

    class FullStorage(StorageTarget):
        def file(self, filename, mode="rb"):
            (tmp_path / filename).touch()
            return Full()

    batch_config = config(tmp_path, form, "none" if form == "jsonl" else None)
    batch_config.storage = FullStorage(str(tmp_path))
    file = BatchFileWriter(
        batch_config,
        get_format(batch_config.encoding),
        FileNamer("t", "s", batch_config.storage),
        {},
    )
    with pytest.raises(BatchFileError, match=rf"{tmp_path}/t--s-.*: .*No space left") as error:
        (file.write([b'{"id":1}']), file.close())
    assert isinstance(error.value.__cause__, OSError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_batcher_leaves_no_file_if_a_record_cannot_be_encoded(tmp_path, form):
    batches = Batcher("t", "s", config(tmp_path, form, None)).get_batches(iter([{"n": 10**5000}]))
    with pytest.raises(DataError, match="cannot be written as JSON"):
        next(batches)
    assert list(tmp_path.iterdir()) == []


def test_file_that_cannot_be_created_is_named_in_the_error(tmp_path):
    (tmp_path / "file").touch()
    batch_config = config(tmp_path / "file", "jsonl", None)
    with pytest.raises(BatchFileError, match=r"file/p-t--s-.*cannot be written"):
        BatchFileWriter(
            batch_config,
            get_format(batch_config.encoding),
            FileNamer("t", "s", batch_config.storage),
            {},
        )


# Parquet


def through_parquet(rows, schema=SCHEMA, compression=None):
    """Write rows to Parquet; return the file's table and the rows read from it."""
    out = io.BytesIO()
    writer = ParquetEncoder(out, schema, compression)
    writer.write([encode_row(row) for row in rows])
    writer.finish()
    file = io.BytesIO(out.getvalue())
    return parquet.read_table(out), list(read_parquet(file, FileLimits().line))


def test_parquet_column_types_come_from_the_schema():
    table, rows = through_parquet([{}])
    kinds = {
        name: str(kind) for name, kind in zip(table.schema.names, table.schema.types, strict=True)
    }
    assert kinds == {
        "id": "int64",
        "text": "string",
        "on": "bool",
        "price": "double",
        "any": "string",
        "one": "double",
        "mixed": "string",
        "list": "list<element: int64>",
        "bare": "string",
        "free": "string",
        "open": "string",
        "deep": "struct<a: int64, b: list<element: string>>",
    }
    assert rows == [dict.fromkeys(SCHEMA["properties"])]


@pytest.mark.parametrize(
    "name, values, kind",
    [
        ("id", [1, 2**63 - 1, None], "int64"),
        ("id", [1, 2**70], "decimal128(22, 0)"),
        ("id", [1, 1.0], "decimal128(2, 1)"),
        ("id", [1, 10**80], "string"),
        ("id", [1, "x"], "string"),
        ("id", [True], "string"),
        ("price", [1, 2.5, Decimal("0.1"), 1e300, 1e16], "double"),
        ("price", [Decimal("1.12345678901234567890"), 1, 0.5], "decimal128(21, 20)"),
        ("price", [2**53 + 1], "decimal128(16, 0)"),
        ("price", [Decimal("0.12345678901234567890"), 1e20], "string"),
        ("price", [Decimal(f"0.1{'0' * 90}1")], "string"),
        ("on", [True, False, None], "bool"),
        ("on", [1], "string"),
        ("text", ["2024", None, "x"], "string"),
        ("any", [1, "1", {"a": [None]}, None, Decimal("1.00000000000000000001")], "string"),
        ("list", [[1], [], None], "list<element: int64>"),
        ("list", [[1.5]], "string"),
        ("deep", [{"a": 1, "b": ["x", None]}], "struct<a: int64, b: list<element: string>>"),
        ("deep", [{"a": 1, "b": None, "c": 3}], "string"),
        ("deep", [{"a": True, "b": None}], "string"),
        ("deep", [[]], "string"),
        ("free", [{"a": {}}, {}], "string"),
        ("stranger", [1, {"a": 2}], "string"),
    ],
)
def test_values_beyond_the_schema_type_widen_the_parquet_type(name, values, kind):
    table, rows = through_parquet([{name: value} for value in values])
    assert str(table.schema.field(name).type) == kind
    read = [row[name] for row in rows]
    assert numbers(read) == numbers(values)
    assert [type(item) is bool for item in read] == [type(item) is bool for item in values]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=4,
)
ROWS = st.lists(
    st.fixed_dictionaries({}, optional=dict.fromkeys([*SCHEMA["properties"], "x"], JSON)),
    min_size=1,
    max_size=3,
)


def drop_nulls(value):
    """Return a value without nulls in objects, which Parquet may drop."""
    if isinstance(value, dict):
        return {key: drop_nulls(item) for key, item in value.items() if item is not None}
    return [drop_nulls(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=60)
@given(ROWS)
def test_parquet_round_trip_keeps_every_digit(rows):
    _, read = through_parquet(rows)
    assert numbers(drop_nulls(read)) == numbers(drop_nulls(rows))


# Unreadable files


def gz(text):
    return gzip.compress(text.encode())


@pytest.mark.parametrize(
    "data, form, compression, reason",
    [
        (None, "jsonl", "gzip", "it does not exist"),
        (b'{"id":1}\n', "jsonl", "gzip", "Not a gzipped file"),
        (gz('{"id":1}\n' * 1000)[:-6], "jsonl", "gzip", "it ends too early"),
        (gz('{"id":1}\n'), "jsonl", None, "line 1 is not JSON, or is truncated"),
        (b'{"id":1}\n{"id":', "jsonl", "none", "line 2 is not JSON, or is truncated"),
        (b'{"id":1}\n\n[1]\n', "jsonl", None, "line 3 is not a JSON object"),
        (
            b'{"type":"RECORD","stream":"s","record":{}}\n',
            "jsonl",
            None,
            "contains Singer messages",
        ),
        (b"PAR1 nothing", "parquet", None, "."),
        (b"", "parquet", None, "."),
    ],
)
def test_unreadable_file_error_names_file_and_reason_once(
    tmp_path, data, form, compression, reason
):
    path = tmp_path / "rows"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(BatchFileError) as error:
        read(path.as_uri(), form, compression)
    start = f"Stream 's': batch file {path.as_uri()} cannot be read: "
    assert str(error.value).startswith(start)
    assert re.search(reason, str(error.value).removeprefix(start))


@pytest.mark.parametrize(
    "address, reason",
    [
        ("nosuch://me:secret@host/a", "batch file nosuch://host/a cannot .* begins with 'nosuch:"),
        ("/", "Is a directory"),
    ],
)
def test_invalid_url_error_names_the_reason_without_the_password(address, reason):
    with pytest.raises(BatchFileError, match=reason):
        read(address, "jsonl")


def test_missing_package_is_named_in_the_error(tmp_path, monkeypatch):
    (tmp_path / "a").touch()
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(BatchFileError, match=r"a package is missing: .*pyarrow"):
        read(str(tmp_path / "a"), "parquet")


@pytest.mark.parametrize(
    "encoding, message",
    [
        ({"format": "csv"}, "format: csv"),
        ({"format": "jsonl", "compression": "z"}, "compression: z"),
    ],
)
def test_unknown_encoding_is_rejected(encoding, message):
    with pytest.raises(NotImplementedError, match=message):
        list(read_rows("/a", BaseBatchFileEncoding.from_dict(encoding), stream="s"))


def test_nan_and_unpaired_surrogates_are_read(tmp_path):
    path = tmp_path / "rows"
    path.write_text('{"a":NaN,"b":"\\ud83d"}\n{"a":1.10}\n')
    first, second = read(str(path), "jsonl")
    assert first["a"] != first["a"]
    assert first["b"] == "\ud83d"
    assert second == {"a": Decimal("1.10")}


def test_file_name_is_resolved_in_the_configured_storage(tmp_path):
    (tmp_path / "a b").mkdir()
    for path in (tmp_path / "a b" / "x y.json", tmp_path / "a b" / "deep" / "z.json"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"id": path.name}))
    for root in (str(tmp_path / "a b"), (tmp_path / "a b").as_uri()):
        storage = StorageTarget(root)
        assert read("s3://other/x%20y.json", "jsonl", storage=storage) == [{"id": "x y.json"}]
        assert read(f"{root}/deep/z.json", "jsonl", storage=storage) == [{"id": "z.json"}]
        deep = storage.get_url("deep/z.json")
        assert read(deep, "jsonl", storage=storage) == [{"id": "z.json"}]
