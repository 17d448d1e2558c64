"""The programs that benchmarks run: those of this project, bare programs, and peers.

A peer that is not installed is never replaced by another: its benchmark is skipped, with a message
that says how to install the peer.
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

__all__ = [
    "PROGRAMS",
    "ROOT",
    "MissingPeerError",
    "bare_program",
    "our_program",
    "peer_program",
    "write_json",
]

ROOT = Path(__file__).resolve().parents[2]
"""The folder of the project."""
PROGRAMS = Path(__file__).resolve().parent / "programs"
"""The folder of the scripts that benchmarks run."""


class MissingPeerError(Exception):
    """A benchmark needs a peer that is not installed."""


def our_program(script: str, *arguments: str, **options: Any) -> Program:
    """Return a script of the folder ``programs`` that runs with this project.

    Args:
        script: The file name.
        arguments: The command-line arguments.
        options: Other fields of `Program`.
    """
    return _program(sys.executable, script, arguments, options, {"PYTHONPATH": str(ROOT)})


def bare_program(script: str, *arguments: str, **options: Any) -> Program:
    """Return a script that needs no SDK, with this interpreter; see `our_program`."""
    return _program(sys.executable, script, arguments, options, {})


def peer_program(name: str, script: str, *arguments: str, **options: Any) -> Program:
    """Return a script that runs in the environment of the peer ``name``; see `our_program`.

    Raises:
        MissingPeerError: The peer is not installed.
    """
    python = peer_python(name)
    if python is None:
        raise MissingPeerError(missing_reason(name))
    return _program(str(python), script, arguments, options, {})


def write_json(path: Path, document: Mapping[str, Any]) -> str:
    """Write a JSON document and return its path as text."""
    path.write_text(json.dumps(document))
    return str(path)


def _program(
    python: str,
    script: str,
    arguments: tuple[str, ...],
    options: dict[str, Any],
    variables: dict[str, str],
) -> Program:
    environment = {"LOGLEVEL": os.environ.get("BENCH_LOGLEVEL", "INFO"), **variables}
    environment |= options.pop("environment", {})
    return Program([python, str(PROGRAMS / script), *arguments], environment=environment, **options)
