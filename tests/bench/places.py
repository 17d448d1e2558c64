"""Where things are: our program, the peers' interpreters, the programs that are measured.

A peer that is not installed is named with the way to get it; a row that needs
it is left out and said so, never guessed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.bench.measure import Program
from tests.peers import missing_reason, peer_python

__all__ = ["PROGRAMS", "ROOT", "MissingPeerError", "bare", "ours", "peer", "written"]

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"


class MissingPeerError(Exception):
    """A benchmark needs a peer that is not installed."""


def ours(script: str, *arguments: str, **more: Any) -> Program:
    """Run one of the programs on this project, as it stands here."""
    return _program(sys.executable, script, arguments, more, {"PYTHONPATH": str(ROOT)})


def bare(script: str, *arguments: str, **more: Any) -> Program:
    """Run a program that needs no SDK with this interpreter."""
    return _program(sys.executable, script, arguments, more, {})


def peer(name: str, script: str, *arguments: str, **more: Any) -> Program:
    """Run a program in a peer's environment.

    Raises:
        MissingPeerError: it is not installed.
    """
    python = peer_python(name)
    if python is None:
        raise MissingPeerError(missing_reason(name))
    return _program(str(python), script, arguments, more, {})


def written(path: Path, document: Mapping[str, Any]) -> str:
    """Write a JSON document and return its path as text."""
    path.write_text(json.dumps(document))
    return str(path)


def _program(
    python: str,
    script: str,
    arguments: tuple[str, ...],
    more: dict[str, Any],
    extra: dict[str, str],
) -> Program:
    environment = {"LOGLEVEL": os.environ.get("BENCH_LOGLEVEL", "INFO"), **extra}
    environment |= more.pop("environment", {})
    return Program([python, str(PROGRAMS / script), *arguments], environment=environment, **more)
