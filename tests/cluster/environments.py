"""What brings a tap to executors that do not have it: a zip of modules, or a whole environment.

Nothing is downloaded. An environment is a bare one of this Python with copies
of what stands in the one that runs the tests: the distributions that the product needs on an
executor, by their own metadata, and the product itself.
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

__all__ = ["bare", "packed", "zipped"]

ROOT: Final = Path(__file__).parents[2]
PRODUCT: Final = "tap-core-sdk"
MORE: Final = ("pyarrow",)
"""What an executor needs beside what every tap needs; PySpark is the cluster's own."""


def zipped(package: Path, target: Path) -> Path:
    """Put a package of pure Python into a zip."""
    with zipfile.ZipFile(target, "w") as made:
        for path in sorted(package.rglob("*.py")):
            made.write(path, path.relative_to(package.parent))
    return target


def bare(folder: Path) -> Path:
    """Make an environment that has nothing but Python; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder / "bin" / "python"


def packed(package: Path, target: Path) -> Path:
    """Make an environment with the product and a package, as an archive.

    It is a ``.tar.gz``: what ends in ``.tar`` Spark unpacks by itself, and nothing in it may be
    executed then.
    """
    folder = target.with_name("unpacked")
    bare(folder)
    [place] = folder.glob("lib/python*/site-packages")
    for name in sorted(_needed()):
        _copy(metadata.distribution(name), place)
    for room in ("tap_core", "target_spark"):
        shutil.copytree(ROOT / room, place / room)
    shutil.copytree(package, place / package.name)
    with tarfile.open(target, "w:gz", compresslevel=1) as made:
        for path in folder.iterdir():
            made.add(path, path.name)
    shutil.rmtree(folder)
    return target


def _needed() -> set[str]:
    """Return the names of all distributions that an executor needs, the product apart."""
    found: set[str] = set()
    waiting = [*_requirements(PRODUCT), *MORE]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _requirements(name)
    return found


def _requirements(name: str) -> list[str]:
    parsed = map(Requirement, metadata.requires(name) or [])
    fit = [each for each in parsed if not each.marker or each.marker.evaluate({"extra": ""})]
    return [each.name for each in fit]


def _copy(found: metadata.Distribution, place: Path) -> None:
    for file in found.files or []:
        source = Path(str(found.locate_file(file)))
        if ".." in file.parts or "tests" in file.parts or not source.is_file():
            continue
        target = place / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
