"""`scripts/preflight.sh` names missing programs and how to install them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "preflight.sh"
TOOLS = ("sed", "head", "sh")

JAVA_8 = 'java version "1.8.0_402"'
JAVA_11 = 'openjdk version "11.0.22" 2024-01-16'
JAVA_17 = 'openjdk version "17.0.15" 2025-04-15'
JAVA_22 = 'openjdk version "22.0.2" 2024-07-16'
JAVA_25 = 'openjdk version "25" 2025-09-16'


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return the only folder on PATH of a machine without Python and Java."""
    for tool in TOOLS:
        if path := shutil.which(tool):
            (tmp_path / tool).symlink_to(path)
    return tmp_path


def program(machine: Path, name: str, body: str) -> None:
    path = machine / name
    path.write_text(f"#!{machine / 'sh'}\n{body}\n")
    path.chmod(0o755)


def with_java(machine: Path, says: str) -> None:
    program(machine, "java", f"echo '{says}' >&2")


def with_python(machine: Path, name: str = "python3") -> None:
    program(machine, name, f'exec "{sys.executable}" "$@"')


def preflight(machine: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(machine / "sh"), str(SCRIPT)],
        env={"PATH": str(machine), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("java", [JAVA_17, JAVA_22])
def test_preflight_prints_the_interpreter_if_nothing_is_missing(machine: Path, java: str) -> None:
    with_python(machine)
    with_java(machine, java)
    process = preflight(machine)
    assert process.returncode == 0, process.stderr
    assert Path(process.stdout.strip()).exists()
    assert process.stderr == ""


def test_preflight_lists_everything_missing_at_once(machine: Path) -> None:
    process = preflight(machine)
    assert process.returncode == 1
    assert process.stdout == ""
    assert "missing: Python 3.10 or newer" in process.stderr
    assert "missing: Java 17 to 22" in process.stderr
    assert "apt-get install python3 python3-venv" in process.stderr
    assert "apt-get install openjdk-17" in process.stderr


@pytest.mark.parametrize(
    ("java", "fault"),
    [(JAVA_8, "too old: Java 8"), (JAVA_11, "too old: Java 11"), (JAVA_25, "too new: Java 25")],
)
def test_unsupported_java_is_named_with_its_version(machine: Path, java: str, fault: str) -> None:
    with_python(machine)
    with_java(machine, java)
    process = preflight(machine)
    assert process.returncode == 1
    assert fault in process.stderr
    assert "missing: Python" not in process.stderr


def test_newer_python_is_preferred_to_an_old_one(machine: Path) -> None:
    program(machine, "python3", "exit 1")
    with_python(machine, "python3.12")
    with_java(machine, JAVA_17)
    assert preflight(machine).returncode == 0


def test_configured_interpreter_is_not_replaced(machine: Path) -> None:
    with_python(machine)
    with_java(machine, JAVA_17)
    program(machine, "old", "exit 1")
    process = preflight(machine, PYTHON=str(machine / "old"))
    assert process.returncode == 1
    assert "is not suitable" in process.stderr


def test_python_without_venv_is_reported(machine: Path) -> None:
    program(
        machine,
        "python3",
        f'case "$*" in *ensurepip*) exit 1;; *sys.executable*) echo "$0"; exit;; esac\n'
        f'exec "{sys.executable}" "$@"',
    )
    with_java(machine, JAVA_17)
    process = preflight(machine)
    assert process.returncode == 1
    assert "missing: pip and venv" in process.stderr


def test_java_home_takes_precedence(machine: Path, tmp_path: Path) -> None:
    with_python(machine)
    with_java(machine, JAVA_8)
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(f"#!{machine / 'sh'}\necho '{JAVA_17}' >&2\n")
    (home / "bin" / "java").chmod(0o755)
    assert preflight(machine, JAVA_HOME=str(home)).returncode == 0
    assert preflight(machine).returncode == 1
