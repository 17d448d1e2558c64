"""Consistency of the project's files: locks, extras, Makefile, CI."""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests import peers
from tests.project.locks import read_lock

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ("requirements.lock", "requirements-dev.lock")


def locked(name: str) -> dict[str, str]:
    """Return the packages of a lock file that this interpreter would install."""
    return {
        package.name: str(package.version)
        for package in read_lock(name)
        if package.is_for_this_interpreter()
    }


UNLOCKED = {"faker", "connect", "docs"}
"""Extras that the development lock leaves out: Faker, for which the tests have a stand-in, Spark
Connect's client, which cannot be installed together with pyspark (it is a peer), and what builds
the site, which has a lock of its own."""


@pytest.mark.parametrize("name", LOCKS)
def test_locks_satisfy_the_requirements_of_the_project(name: str) -> None:
    from packaging.requirements import Requirement

    extras = {"spark"} if name == "requirements.lock" else {"dev", *all_extras() - UNLOCKED}
    pinned = locked(name)
    for text in metadata.requires("tap-core-sdk") or []:
        requirement = Requirement(text)
        if requirement.name == "tap-core-sdk":
            continue
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in extras):
            continue
        assert requirement.name.lower() in pinned, f"{text}: run `make lock`"
        assert requirement.specifier.contains(pinned[requirement.name.lower()]), text


def all_extras() -> set[str]:
    return set(metadata.metadata("tap-core-sdk").get_all("Provides-Extra") or [])


def test_plain_installation_has_no_pyspark() -> None:
    plain = [r for r in metadata.requires("tap-core-sdk") or [] if "extra ==" not in r]
    names = {re.match(r"[\w-]+", r)[0] for r in plain}  # type: ignore[index]
    assert names == {
        *("fsspec", "jsonpath-ng", "jsonschema", "msgspec", "pendulum", "python-backoff"),
        *("python-dotenv", "regex", "requests", "typer", "typing-extensions", "urllib3"),
    }


def test_continuous_integration_runs_make_test() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    commands = [line for line in script.splitlines() if re.match(r"(exec )?make\b", line)]
    assert commands == ["exec make test"]


def test_listed_make_targets_exist() -> None:
    text = (ROOT / "Makefile").read_text()
    listed = re.findall(r"^#   make (\w+)", text, flags=re.MULTILINE)
    assert {"demo", "test", "check", "bench", "lock"} <= set(listed)
    for name in listed:
        assert re.search(rf"^{name}:", text, flags=re.MULTILINE), name


def test_unknown_peer_is_rejected() -> None:
    with pytest.raises(ValueError, match="singer_sdk"):
        peers.peer_python("nobody")


def test_environment_variable_selects_the_peer_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAP_CORE_PEER_PYTHON", "/elsewhere/python")
    assert peers.peer_python("singer_sdk") == Path("/elsewhere/python")
    monkeypatch.setenv("TAP_CORE_PEER_DLT", "/other/python")
    assert peers.peer_python("dlt") == Path("/other/python")


def test_incomplete_peer_environment_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TAP_CORE_PEER_DLT", raising=False)
    monkeypatch.setattr(peers, "HOME", tmp_path)
    python = tmp_path / "dlt" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    assert peers.peer_python("dlt") is None
    (tmp_path / "dlt" / ".ready").touch()
    assert peers.peer_python("dlt") == python
