"""Start of an engine, a Spark process that later runs on this machine share.

The process is detached, so it outlives the run that starts it. It inherits no open files. Its
settings, which may contain secrets, are passed through standard input.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Final

from target_spark.errors import SparkUnavailableError
from target_spark.spark.session import SparkSettings
from target_spark.warm_engine.engine_folder import EngineFolder
from target_spark.warm_engine.identity import Identity

__all__ = ["connect_engine", "start_engine"]

_PROGRAM: Final = """
import json, os, sys
given = json.loads(sys.stdin.buffer.read())
sys.path[:] = given["path"]
if os.fork():
    os._exit(0)
from target_spark.warm_engine.server import main
main(given)
"""
"""Python code that starts the engine's process. It forks, so that the engine is no child of the
run."""

_UNSENT_FIELDS: Final = {"remote", "scratch", "shared", "engine"}
"""Fields of `SparkSettings` that are not passed from the run to the engine."""

_CONNECT_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.1


def connect_engine(identity: Identity) -> tuple[EngineFolder, socket.socket] | None:
    """Connect to the engine (shared Spark process) with the settings and versions in ``identity``.

    Return its folder and the connection, or None if no such engine is running.

    Raises:
        UntrustedPathError: Another user has access to the folder of the engine.
        OSError: The engine does not respond.
    """
    folder = EngineFolder.find(identity.key)
    if folder is not None:
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            return folder, folder.connect(_CONNECT_SECONDS)
    return None


def start_engine(
    settings: SparkSettings, identity: Identity
) -> tuple[EngineFolder, socket.socket, bool]:
    """Start an engine (shared Spark process), unless one with the same identity is running.

    The engine accepts connections before its Spark has started.

    Args:
        settings: The Spark settings of the engine.
        identity: The identity of the engine.

    Returns:
        The folder of the engine, a connection to it, and True if it was started by this call.

    Raises:
        SparkUnavailableError: The process did not start, or another engine with the same identity
            is about to end.
        UntrustedPathError: Another user has access to the folder of the engine.
        OSError: The folder of the engine cannot be created, or the engine does not respond.
    """
    end = time.monotonic() + _CONNECT_SECONDS
    is_new = False
    while (connected := connect_engine(identity)) is None:
        if time.monotonic() > end:
            raise SparkUnavailableError("An engine with these settings is just ending.")
        is_new = _start_process(settings, identity)
        if not is_new:  # an engine is starting, or ending
            time.sleep(_PAUSE_SECONDS)
    return *connected, is_new


def _start_process(settings: SparkSettings, identity: Identity) -> bool:
    """Start a shared Spark process (engine), and wait until it accepts connections.

    Return False if one with the same identity was already started, else True.

    Raises:
        SparkUnavailableError: The process did not start.
        UntrustedPathError: Another user has access to the folder of the engine.
        OSError: The folder of the engine cannot be created.
    """
    folder = EngineFolder.make(identity.key)
    start_input = {
        "folder": str(folder.path),
        "identity": identity.parts,
        "settings": {
            field.name: getattr(settings, field.name)
            for field in fields(settings)
            if field.name not in _UNSENT_FIELDS
        },
        "cwd": os.getcwd() if settings.conf or settings.jars else "/",  # noqa: PTH109
        "path": [str(Path(entry).absolute()) for entry in sys.path if entry],
    }
    process = subprocess.run(  # noqa: S603  (this program; it forks and ends)
        [sys.executable, "-c", _PROGRAM],
        input=json.dumps(start_input, default=dict).encode(),  # a mapping may be no dict
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",  # modules in the working folder are not imported
        start_new_session=True,
        check=False,
    )
    word = process.stdout.strip()
    if word not in {b"ready", b"exists"}:
        raise SparkUnavailableError(
            f"The engine did not start; its messages are in {folder.log}. Without an engine a run"
            " starts its own Spark."
        )
    return word == b"ready"
