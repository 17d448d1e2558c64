"""`scripts/run_uv.py` passes pip's configuration on to uv."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from scripts.run_uv import read_pip_config, uv_environment

ROOT = Path(__file__).resolve().parents[2]
_FILES = {
    "METADATA": "Metadata-Version: 2.1\nName: exchanged\nVersion: 1.0\n",
    "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "RECORD": "",
}


def test_environment_overrides_files_and_install_overrides_global() -> None:
    lines = [
        ":env:.index-url='https://three.example/simple'",
        "install.index-url='https://two.example/simple'",
        "global.index-url='https://one.example/simple'",
        "install.find-links='/a\\n/b'",
        "global.find-links='/c'",
        "freeze.timeout='10'",
    ]
    assert read_pip_config(lines) == {
        "index-url": "https://three.example/simple",
        "find-links": "/a\n/b",
    }


def test_settings_of_pip_become_variables_of_uv() -> None:
    settings = {
        "index-url": "https://index.example/simple",
        "extra-index-url": "https://one.example/simple\nhttps://two.example/simple",
        "find-links": "/wheels\n/more",
        "trusted-host": "index.example",
        "quiet": "1",
    }
    assert uv_environment(settings, {"PATH": "/bin"}) == {
        "PATH": "/bin",
        "UV_COMPILE_BYTECODE": "1",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_DEFAULT_INDEX": "https://index.example/simple",
        "UV_INDEX": "https://one.example/simple https://two.example/simple",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_INSECURE_HOST": "index.example",
        "VIRTUAL_ENV": sys.prefix,
    }


def test_variable_of_uv_overrides_the_setting_of_pip() -> None:
    variables = uv_environment({"index-url": "https://pip.example"}, {"UV_DEFAULT_INDEX": "mine"})
    assert variables["UV_DEFAULT_INDEX"] == "mine"


def test_uv_rejects_an_archive_with_another_hash(tmp_path: Path) -> None:
    """SEC20: a replaced archive is not installed."""
    pytest.importorskip("uv", reason="needs uv (make setup)")
    with ZipFile(tmp_path / "exchanged-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in _FILES.items():
            wheel.writestr(f"exchanged-1.0.dist-info/{name}", text)
    lock = tmp_path / "requirements.lock"
    lock.write_text(f"exchanged==1.0 --hash=sha256:{'0' * 64}\n")
    command = [sys.executable, str(ROOT / "scripts" / "run_uv.py"), "pip", "install", "--no-deps"]
    offline = ["--no-index", "--find-links", str(tmp_path), "--target", str(tmp_path / "out")]
    done = subprocess.run(
        [*command, "--require-hashes", *offline, "-r", str(lock)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "Hash mismatch" in done.stderr
    assert not list(tmp_path.glob("out/exchanged*"))
