"""GitHub's workflows and forms: commands that exist, pinned actions, few permissions."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml"))
PROGRAMS = {"docker", "echo", "gh", "git", "go", "make", "mike", "python3", "test"}
"""Commands of a runner, besides those in the project's environment."""
WRITERS = {
    ("release.yml", "publish", "id-token"),
    ("release.yml", "release", "contents"),
    ("docs.yml", "publish", "contents"),
    ("images.yml", "build", "packages"),
    ("codeql.yml", "analyze", "security-events"),
}
"""Each permission to write: file, job and what it writes."""


def load(path: Path) -> dict[Any, Any]:
    loaded = yaml.safe_load(path.read_text("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def jobs() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path in WORKFLOWS:
        for name, job in load(path)["jobs"].items():
            yield path.name, name, job


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, name, job in jobs():
        for step in job.get("steps", ()):
            yield f"{path} {name}", step


def commands() -> Iterator[tuple[str, str]]:
    """Yield each command line of the steps, continued lines joined, with its job."""
    for job, step in steps():
        for line in step.get("run", "").replace("\\\n", " ").splitlines():
            yield job, line.strip()


def test_every_workflow_is_there() -> None:
    names = {path.stem for path in WORKFLOWS}
    assert names == {"codeql", "docs", "images", "release", "tests"}


def test_make_targets_that_workflows_run_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    run = {
        target
        for _, line in commands()
        if line.startswith("make ")
        for target in line.split()[1:]
        if "=" not in target
    }
    assert {"lint", "types", "test", "thorough", "audit", "docs"} <= run
    if not (ROOT / "mkdocs.yml").exists():
        run -= {"docs"}
    assert [name for name in run if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


def test_commands_of_workflows_exist() -> None:
    for job, line in commands():
        word = line.split()[0]
        if word in {"if", "else", "fi"} or re.match(r"\w+=", word):
            continue
        if word == ".venv/bin/python":
            module = line.split()[2]
            path = ROOT / (module.replace(".", "/") + ".py")
            assert module in {"hatchling", "pytest"} or path.exists(), f"{job}: {line}"
        else:
            assert word in PROGRAMS, f"{job}: {line}"


def test_paths_in_workflows_exist() -> None:
    for job, line in commands():
        for path in re.findall(r"(?<=\s)(?:tests|docs|scripts)/[\w./-]+", line):
            assert (ROOT / path).exists(), f"{job}: {path}"
    images = load(GITHUB / "workflows" / "images.yml")["jobs"]["build"]["strategy"]["matrix"]
    text = (ROOT / "images" / "Dockerfile").read_text("utf-8")
    for image in images["image"]:
        assert f" AS {image}\n" in text


def test_actions_are_pinned_by_commit_and_name_their_version() -> None:
    pins: dict[str, set[str]] = {}
    for path in WORKFLOWS:
        for used in re.findall(r"uses: (.+)", path.read_text("utf-8")):
            if used.startswith("./"):
                assert (ROOT / used).is_file(), used
                continue
            match = re.fullmatch(r"([\w-]+/[\w-]+)[\w/-]*@([0-9a-f]{40}) # v[\d.]+", used)
            assert match, f"{path.name}: {used}"
            pins.setdefault(match[1], set()).add(match[2])
    assert {name: pin for name, pin in pins.items() if len(pin) > 1} == {}


def test_only_listed_jobs_may_write() -> None:
    for path in WORKFLOWS:
        assert load(path)["permissions"] == {"contents": "read"}, path.name
    writers = {
        (path, job, permission)
        for path, job, about in jobs()
        for permission, access in about.get("permissions", {}).items()
        if access == "write"
    }
    assert writers == WRITERS


def test_jobs_have_a_time_limit() -> None:
    unlimited = [
        f"{p} {n}" for p, n, job in jobs() if "steps" in job and "timeout-minutes" not in job
    ]
    assert unlimited == []


def test_values_of_events_are_not_pasted_into_commands() -> None:
    """Names of branches and titles of pull requests are not inserted into scripts."""
    pasted = re.compile(r"\$\{\{ (?!matrix\.)")
    assert [line for _, line in commands() if pasted.search(line)] == []


def test_every_python_of_the_classifiers_is_tested() -> None:
    matrix = load(GITHUB / "workflows" / "tests.yml")["jobs"]["tests"]["strategy"]["matrix"]
    included = [entry for entry in matrix["include"] if not entry.get("experimental")]
    tested = {*matrix["python"], *(entry["python"] for entry in included)}
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert tested == set(re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project))


def test_a_release_waits_for_the_tests_and_for_the_check_of_its_version() -> None:
    release = load(GITHUB / "workflows" / "release.yml")
    publish = release["jobs"]["publish"]
    assert set(publish["needs"]) == {"tests", "build"}
    assert publish["environment"] == "pypi"
    assert release[True] == {"push": {"tags": ["v*"]}}  # YAML reads the word `on` as true


@pytest.mark.parametrize("path", [*FORMS, GITHUB / "dependabot.yml"], ids=lambda path: path.name)
def test_forms_and_dependabot_parse(path: Path) -> None:
    about = load(path)
    if "body" in about:
        assert {"name", "description", "labels"} <= about.keys()
        identifiers = [item["id"] for item in about["body"] if item["type"] != "markdown"]
        assert len(identifiers) == len(set(identifiers))
    elif path.name == "dependabot.yml":
        kinds = [update["package-ecosystem"] for update in about["updates"]]
        assert sorted(kinds) == ["docker", "github-actions", "pip"]


@pytest.mark.thorough
def test_actionlint_finds_nothing() -> None:
    program = shutil.which("actionlint")
    if program is None:
        pytest.skip("actionlint is not installed: CONTRIBUTING.md says how to install it")
    process = subprocess.run(
        [program, *map(str, WORKFLOWS)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stdout
