"""Code that another user of the machine runs, and a folder that this user can reach."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

__all__ = ["STRANGER", "as_root", "open_to_all", "run_as", "set_home"]

STRANGER = 65534
"""The user id of the user ``nobody``."""

as_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can start a process of another user"
)


def set_home(monkeypatch: pytest.MonkeyPatch, home: str | None) -> None:
    """Set the user's home folder; None for a user without one, as in some containers."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", home)
        return
    monkeypatch.delenv("HOME", raising=False)

    def fail(_uid: int) -> NoReturn:
        raise KeyError

    monkeypatch.setattr("pwd.getpwuid", fail)


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that every user can enter; those of pytest are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="open-to-all-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


_BEGIN = "import fcntl, grp, json, os, pathlib, pwd, sys, time"
_BECOME = """
user, group = map(int, sys.argv[1:3])
del sys.argv[1:3]
os.chdir("/")
os.setgroups([])
os.setgid(group)
os.setuid(user)
"""


def run_as(
    code: str,
    *arguments: str | Path,
    user: int = STRANGER,
    group: int = STRANGER,
    imports: str = "",
) -> str:
    """Run Python code as another user; return its output.

    ``imports`` are run before, since that user may not be allowed to read the project.
    """
    script = f"{_BEGIN}\n{imports}\n{_BECOME}\n{code}"
    command = [sys.executable, "-c", script, str(user), str(group), *map(str, arguments)]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return process.stdout.strip()
