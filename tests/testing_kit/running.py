"""Run pytest in a separate process, as tap authors do, and return the outcome of each test.

A recorder that pytest loads provides names, outcomes and warnings; the text output is used only
to check texts for users. A peer's environment has no pytest, so the packages of this
environment's pytest, which are pure Python, are linked into it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

__all__ = ["Run", "faulty_taps", "run_pytest"]

ROOT = Path(__file__).resolve().parents[2]
LINKED_PACKAGES = (
    "_pytest",
    "exceptiongroup",
    "iniconfig",
    "packaging",
    "pluggy",
    "py",
    "pygments",
    "pytest",
    "tomli",
)

RECORDER = """
import json

seen = {"outcomes": {}, "warnings": [], "collected": []}


def pytest_collection_modifyitems(items):
    seen["collected"] = [item.nodeid for item in items]


def pytest_collectreport(report):
    if report.failed:
        seen["outcomes"][report.nodeid] = "uncollected"


def pytest_runtest_logreport(report):
    before = seen["outcomes"].get(report.nodeid)
    if report.when == "call":
        seen["outcomes"][report.nodeid] = report.outcome
    elif report.failed:
        seen["outcomes"][report.nodeid] = "error"
    elif report.skipped:
        seen["outcomes"][report.nodeid] = "skipped"


def pytest_warning_recorded(warning_message, nodeid):
    kind = warning_message.category.__name__
    seen["warnings"].append([nodeid, kind, str(warning_message.message)])


def pytest_sessionfinish(session):
    with open("recorded.json", "w") as out:
        json.dump(seen, out)
"""


@dataclass(frozen=True)
class Run:
    """The result of a pytest run: node ids without their file, in the order of collection."""

    collected: list[str]
    outcomes: dict[str, str]
    warnings: list[tuple[str, str, str]]
    output: str

    def get_outcomes(self, cls: str) -> dict[str, str]:
        """Return the outcomes of one class by test name."""
        return {
            name.removeprefix(f"{cls}::"): outcome
            for name, outcome in self.outcomes.items()
            if name.startswith(f"{cls}::")
        }

    def bad(self, cls: str) -> dict[str, str]:
        """Return the tests of one class that did not pass."""
        return {
            name: outcome for name, outcome in self.get_outcomes(cls).items() if outcome != "passed"
        }

    def warned(self, cls: str) -> list[tuple[str, str]]:
        """Return the tests of one class that warned, with the warning's text."""
        return [
            (name.removeprefix(f"{cls}::"), text)
            for name, kind, text in self.warnings
            if name.startswith(f"{cls}::") and kind == "UserWarning"
        ]


def faulty_taps(sdk: str = "tap_core") -> str:
    """Return the test module of `faulty_taps`, with the import lines of an SDK."""
    source = (Path(__file__).parent / "faulty_taps.py").read_text("utf-8")
    return source.replace("tap_core", sdk)


def run_pytest(
    folder: Path, source: str, *arguments: str, python: Path | str = sys.executable
) -> Run:
    """Run pytest on a test module; the folder is the author's project."""
    (folder / "recorder.py").write_text(RECORDER)
    (folder / "test_core.py").write_text(source)
    process = subprocess.run(
        [str(python), "-m", "pytest", "-p", "recorder", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env=_environment(folder, python),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    recorded = folder / "recorded.json"
    assert recorded.exists(), process.stdout + process.stderr
    recorded_run = json.loads(recorded.read_text())
    return Run(
        collected=[_short(name) for name in recorded_run["collected"]],
        outcomes={_short(name): outcome for name, outcome in recorded_run["outcomes"].items()},
        warnings=[(_short(name), kind, text) for name, kind, text in recorded_run["warnings"]],
        output=process.stdout + process.stderr,
    )


def _short(name: str) -> str:
    return name.partition("::")[2] or name


def _environment(folder: Path, python: Path | str) -> dict[str, str]:
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("TAP_", "PYTEST_", "PYTHON"))}
    keep["PYTHONDONTWRITEBYTECODE"] = "1"
    if str(python) == sys.executable:
        paths = [folder, ROOT]
        keep["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # singer_sdk has a plugin, this project none
    else:
        paths = [folder, _link_pytest(folder / "linked")]
    return {**keep, "PYTHONPATH": os.pathsep.join(map(str, paths))}


def _link_pytest(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for real in _find_pytest_packages():
        if not (folder / real.name).exists():
            (folder / real.name).symlink_to(real)
    return folder


def _find_pytest_packages() -> list[Path]:
    """Return the paths of pytest's packages and of pluggy's metadata."""
    origins = [Path(s.origin) for name in LINKED_PACKAGES if (s := find_spec(name)) and s.origin]
    parts = [origin.parent if origin.name == "__init__.py" else origin for origin in origins]
    return [*parts, *parts[0].parent.glob("pluggy-*.dist-info")]
