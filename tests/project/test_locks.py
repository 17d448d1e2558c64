"""Lock files, and the commands that install from them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.locks import LOCKS, ROOT, read_lock

DOCKERFILES = sorted((ROOT / "samples").glob("*/*/Dockerfile"))


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_archive_has_its_hash(name: str) -> None:
    """SEC20: pip and uv install only the locked archives."""
    packages = read_lock(name)
    assert packages
    for package in packages:
        assert package.hashes, package.requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", text) for text in package.hashes)


@pytest.mark.parametrize("name", LOCKS)
def test_lock_contains_no_url(name: str) -> None:
    """SEC20: the person who installs chooses the package index."""
    text = (ROOT / name).read_text("utf-8")
    assert not re.search(r"://|--(?:extra-)?index-url|--find-links|--trusted-host", text)


def test_locks_agree_on_the_version_of_each_package() -> None:
    """SEC20: each package has one version in all lock files."""
    versions: dict[tuple[str, str], set[str]] = {}
    tools = {"requirements-audit.lock"}  # a separate environment
    for name in set(LOCKS) - tools:
        for package in read_lock(name):
            key = (package.name, str(package.requirement.marker))
            versions.setdefault(key, set()).add(str(package.version))
    assert {key: releases for key, releases in versions.items() if len(releases) > 1} == {}


def installs(text: str) -> list[str]:
    """Return the commands of a script that run `pip install` or `uv pip install`."""
    lines = text.replace("\\\n", " ").splitlines()
    commands = [part for line in lines if line[:1] != "#" for part in line.split("&&")]
    return [command for command in commands if re.search(r"\bpip install\b", command)]


def check_installs(commands: list[str]) -> None:
    """Assert that commands install only lock files with hashes, and local folders."""
    for command in commands:
        arguments = command.split("pip install", 1)[1].split()
        assert "--no-deps" in arguments, command
        named = [word for word in arguments if not word.startswith("-")]
        if "-r" in arguments:
            assert "--require-hashes" in arguments, command
            [path] = named
            assert path.removeprefix("/build/") in LOCKS, command
            is_isolated = "build.lock" not in path and "--no-build-isolation" not in arguments
            assert not is_isolated or "--only-binary=:all:" in arguments, command
        else:
            assert "--no-build-isolation" in arguments, command
            assert all(
                (ROOT / word.removeprefix("/build").lstrip("/")).is_dir() for word in named
            ), command


@pytest.mark.parametrize("target", ["setup", "lock", "audit", "docs"])
def test_make_installs_with_hashes(target: str) -> None:
    """SEC20: `make` installs no archive whose hash is not in a lock file."""
    process = subprocess.run(
        ["make", "--dry-run", "--always-make", target],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    commands = [re.sub(r"--quiet|-e |--python \S+", "", line) for line in installs(process.stdout)]
    assert all(command.startswith(".venv/bin/python") for command in commands)
    assert len(commands) >= 4
    check_installs(commands)


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_images_install_with_hashes(path: Path) -> None:
    """SEC20: an image installs the locked archives, and its base image can be a digest."""
    text = path.read_text("utf-8")
    commands = installs(text)
    assert len(commands) >= 3
    check_installs(commands)
    assert re.search(
        r"^ARG BASE_IMAGE=\S+\nFROM (?:--platform=\S+ )?\$\{BASE_IMAGE\}$", text, re.MULTILINE
    )
    assert re.search(r"^USER (?!root|0)\w+$", text, re.MULTILINE)


def test_pip_rejects_an_archive_with_another_hash(tmp_path: Path) -> None:
    """SEC20: a replaced archive is not installed."""
    wheel = tmp_path / "exchanged-1.0-py3-none-any.whl"
    wheel.write_bytes(b"PK")
    lock = tmp_path / "requirements.lock"
    lock.write_text(f"exchanged==1.0 --hash=sha256:{'0' * 64}\n")
    offline = ["--no-index", "--find-links", str(tmp_path), "--target", str(tmp_path / "out")]
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--require-hashes"]
    process = subprocess.run(
        [*install, *offline, "-r", str(lock)], capture_output=True, text=True, check=False
    )
    assert process.returncode != 0
    assert "DO NOT MATCH THE HASHES" in process.stderr
    assert not (tmp_path / "out").exists()
