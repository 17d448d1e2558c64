"""Types of public names: a typical tap passes mypy in strict mode, and type errors fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.typing_api.pyright_check import check_folder

ROOT = Path(__file__).resolve().parents[2]
TAP = Path(__file__).with_name("authors_tap.py")
OVERRIDES = """
from typing import Any
from tap_core import BatchSink, GraphQLStream, RESTStream, SQLSink, SQLStream, Stream, Target

class Users(RESTStream):
    name, url_base, http_method, timeout = "users", "https://api.example.com", "POST", 10
    schema = {"properties": {"id": {"type": "integer"}}}
    primary_keys = ["id"]
    replication_key, is_sorted, check_sorted = "updated_at", True, False
    partitions = [{"region": "eu"}]
    http_headers = {"X-Version": "3"}
    user_agent = "tap-users"
    records_jsonpath = "$.data[*]"

class Names(GraphQLStream):
    query, records_jsonpath = "names { id }", "$.data.names[*]"

class Rows(SQLStream):
    primary_keys, is_sorted, namespace = ("id",), False, "public"

class Sink(BatchSink):
    max_size, include_sdc_metadata_properties = 100, True
    def process_batch(self, context: dict[str, Any]) -> None: ...

class Table(SQLSink[Any]):
    key_properties, table_name, schema_name = ("id",), "users", "public"

class Loader(Target):
    max_parallelism = 2

def use(users: Users, stream: Stream) -> None:
    users.http_method = "GET"
    stream.primary_keys = ["id"]
    reveal_type(users.records_jsonpath)
    stream.primary_keys.not_a_member
"""
"""Tap and target with plain values in place of properties, and with one error in the last line."""


def mypy(path: Path, cache: Path) -> tuple[int, str]:
    process = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--no-error-summary"),
            *("--follow-imports", "silent", "--config-file", str(ROOT / "pyproject.toml")),
            *("--cache-dir", str(cache), str(path)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return process.returncode, process.stdout + process.stderr


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy")


@pytest.mark.thorough
def test_tap_passes_mypy_in_strict_mode(cache: Path) -> None:
    code, output = mypy(TAP, cache)
    assert code == 0, output
    revealed = [line.split('"')[1] for line in output.splitlines() if "Revealed type" in line]
    assert len(revealed) == 5, output
    config, streams, key, schema, json_type = revealed
    assert "Mapping[str, Any]" in config.replace("typing.", "").replace("builtins.", "")
    assert "Stream" in streams
    assert streams.split("[")[0].endswith(("dict", "Mapping"))
    assert key.replace("builtins.", "").replace("Union[str, None]", "str | None") == "str | None"
    assert "dict" in schema
    assert "dict" in json_type


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('    primary_keys = ("id",)\n', "    primary_keys = 7\n"),
        ("    is_sorted = True\n", '    is_sorted = "yes"\n'),
        ("-> list[Stream]:", "-> list[str]:"),
        ("-> Record | None:", "-> int:"),
        ("th.ArrayType(th.StringType)", "th.ArrayType()"),
    ],
)
def test_type_error_in_a_tap_is_found_by_mypy(
    cache: Path, tmp_path: Path, right: str, wrong: str
) -> None:
    source = TAP.read_text()
    assert source.count(right) == 1
    path = tmp_path / "mistaken_tap.py"
    path.write_text(source.replace(right, wrong))
    code, output = mypy(path, cache)
    assert code == 1, output
    assert "error:" in output


def test_pyright_accepts_plain_values_in_place_of_properties(tmp_path: Path) -> None:
    (tmp_path / "overrides.py").write_text(OVERRIDES)
    diagnostics = check_folder(tmp_path, "strict")
    errors = [item["message"] for item in diagnostics if item["severity"] == "error"]
    assert errors
    assert [text for text in errors if "not_a_member" not in text] == []
    revealed = [item["message"] for item in diagnostics if item["severity"] == "information"]
    assert len(revealed) == 1
    assert '"str | Any"' in revealed[0]
