"""`scripts/run_uv.py` passes the settings of pip on to uv."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

from scripts.run_uv import make_uv_environment, read_pip_options

ROOT = Path(__file__).resolve().parents[2]
RUN_UV = [sys.executable, str(ROOT / "scripts" / "run_uv.py")]
_FILES = {
    "METADATA": "Metadata-Version: 2.1\nName: exchanged\nVersion: 1.0\n",
    "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "RECORD": "",
}


@pytest.fixture
def pip_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of the only configuration file of pip; no variable configures pip."""
    for name in [*os.environ]:
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    return tmp_path / "pip.conf"


def test_options_of_pip_are_those_that_pip_itself_uses(
    pip_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip_config.write_text(
        "[global]\nindex-url = https://one.example/simple\nfind-links = /c\nquiet = 1\n"
        "no-index = true\ntimeout = 15.5\n"
        "[install]\nfind-links =\n  /a\n  /b\n"
        "[freeze]\nproxy = http://proxy.example\n"
    )
    monkeypatch.setenv("PIP_INDEX_URL", "https://two.example/simple")
    options = read_pip_options()
    assert options["index_url"] == "https://two.example/simple"
    assert options["find_links"] == ["/a", "/b"]
    assert options["timeout"] == 15.5
    assert options["no_index"]
    assert "proxy" not in options


def test_options_of_pip_become_variables_of_uv(tmp_path: Path) -> None:
    options = {
        "index_url": "https://index.example/simple",
        "extra_index_urls": ["https://one.example/simple", "https://two.example/simple"],
        "find_links": ["/wheels", "/more"],
        "trusted_hosts": ["index.example"],
        "timeout": 15.5,
        "cert": str(tmp_path),
        "quiet": 1,
    }
    environment = {"PATH": "/bin", "UV_SYSTEM_PYTHON": "1", "UV_INDEX": ""}
    assert make_uv_environment(options, environment) == {
        "PATH": "/bin",
        "UV_COMPILE_BYTECODE": "1",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_SYSTEM_CERTS": "true",
        "UV_DEFAULT_INDEX": "https://index.example/simple",
        "UV_INDEX": "https://one.example/simple https://two.example/simple",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_INSECURE_HOST": "index.example",
        "UV_HTTP_TIMEOUT": "16",
        "SSL_CERT_DIR": str(tmp_path),
        "UV_PYTHON": sys.executable,
    }


def test_variable_of_uv_overrides_the_option_of_pip() -> None:
    variables = make_uv_environment({"index_url": "https://pip.example"}, {"UV_DEFAULT_INDEX": "u"})
    assert variables["UV_DEFAULT_INDEX"] == "u"


@pytest.mark.skipif(find_spec("uv") is None, reason="needs uv (make setup)")
def test_uv_asks_no_index_if_pip_must_not(pip_config: Path) -> None:
    pip_config.write_text("[global]\nno-index = true\nindex-url = https://index.example/simple\n")
    process = subprocess.run(
        [*RUN_UV, "pip", "install", "--dry-run", "absent"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode != 0
    assert "index.example" not in process.stderr
    assert "absent was not found" in process.stderr


@pytest.mark.skipif(find_spec("uv") is None, reason="needs uv (make setup)")
def test_uv_rejects_an_archive_with_another_hash(tmp_path: Path) -> None:
    """SEC20: a replaced archive is not installed."""
    with ZipFile(tmp_path / "exchanged-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in _FILES.items():
            wheel.writestr(f"exchanged-1.0.dist-info/{name}", text)
    lock = tmp_path / "requirements.lock"
    lock.write_text(f"exchanged==1.0 --hash=sha256:{'0' * 64}\n")
    offline = ["--no-index", "--find-links", str(tmp_path), "--target", str(tmp_path / "out")]
    process = subprocess.run(
        [*RUN_UV, "pip", "install", "--no-deps", "--require-hashes", *offline, "-r", str(lock)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode != 0
    assert "Hash mismatch" in process.stderr
    assert not list(tmp_path.glob("out/exchanged*"))
