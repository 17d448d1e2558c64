"""Packages that bring a tap to executors: a zip of modules, or a whole environment.

Nothing is downloaded. An environment is an empty one of this Python with copies from the
environment that runs the tests: the distributions that an executor needs by their own metadata, and
the project itself.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

__all__ = ["make_empty_environment", "pack_environment", "zip_package"]

ROOT: Final = Path(__file__).parents[2]
PRODUCT: Final = "tap-core-sdk"
MORE: Final = ("pyarrow",)
"""Distributions that an executor needs in addition; PySpark comes with the cluster."""


def zip_package(package: Path, target: Path) -> Path:
    """Write a pure-Python package into a zip file; return the file."""
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted(package.rglob("*.py")):
            archive.write(path, path.relative_to(package.parent))
    return target


def make_empty_environment(folder: Path) -> Path:
    """Create an environment with Python only; return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder / "bin" / "python"


def pack_environment(package: Path, target: Path) -> Path:
    """Create an environment with the project and a package, as an archive.

    It is a ``.tar.gz``: Spark unpacks a ``.tar`` itself, and then no file in it is executable.
    """
    folder = target.with_name("unpacked")
    make_empty_environment(folder)
    [site_packages] = folder.glob("lib/python*/site-packages")
    for name in sorted(_needed()):
        _copy(metadata.distribution(name), site_packages)
    for room in ("tap_core", "target_spark"):
        shutil.copytree(ROOT / room, site_packages / room)
    shutil.copytree(package, site_packages / package.name)
    with tarfile.open(target, "w:gz", compresslevel=1) as archive:
        for path in folder.iterdir():
            archive.add(path, path.name)
    shutil.rmtree(folder)
    return target


def _needed() -> set[str]:
    """Return the names of all distributions that an executor needs, without the project."""
    names: set[str] = set()
    waiting = [*_requirements(PRODUCT), *MORE]
    while waiting:
        name = waiting.pop()
        if name not in names:
            names.add(name)
            waiting += _requirements(name)
    return names


def _requirements(name: str) -> list[str]:
    parsed = map(Requirement, metadata.requires(name) or [])
    fit = [
        requirement
        for requirement in parsed
        if not requirement.marker or requirement.marker.evaluate({"extra": ""})
    ]
    return [requirement.name for requirement in fit]


def _copy(distribution: metadata.Distribution, site_packages: Path) -> None:
    for file in distribution.files or []:
        source = Path(str(distribution.locate_file(file)))
        if ".." in file.parts or "tests" in file.parts or not source.is_file():
            continue
        target = site_packages / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
