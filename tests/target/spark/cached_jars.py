"""A jar cache as Spark's resolver fills it, with made-up jars that count as published."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from target_spark.spark.jar_versions import SHA256

__all__ = ["create_jars", "publish"]


def create_jars(folder: Path, coordinates: Iterable[str], content: str = "y") -> list[Path]:
    """Create a jar in the cache for each of the coordinates; return their paths."""
    (folder / "jars").mkdir(parents=True, exist_ok=True)
    names = (f"{name.replace(':', '_', 1).replace(':', '-')}.jar" for name in coordinates)
    jars = [folder / "jars" / name for name in names]
    for jar in jars:
        with zipfile.ZipFile(jar, "w") as archive:
            archive.writestr("x", content * 100)
    return jars


def publish(monkeypatch: pytest.MonkeyPatch, folder: Path, coordinates: Iterable[str]) -> list[str]:
    """Create jars as `create_jars`, and register their hashes as the published ones."""
    names = list(coordinates)
    jars = create_jars(folder, names)
    for name, jar in zip(names, jars, strict=True):
        monkeypatch.setitem(SHA256, name, hashlib.sha256(jar.read_bytes()).hexdigest())
    return [str(jar) for jar in jars]
