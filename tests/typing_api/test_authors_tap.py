"""Types of public names: a typical tap passes mypy in strict mode, and type errors fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TAP = Path(__file__).with_name("authors_tap.py")


def mypy(path: Path, cache: Path) -> tuple[int, str]:
    done = subprocess.run(
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
    return done.returncode, done.stdout + done.stderr


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
