"""The server of an engine and clients that do not keep to the protocol. Without Spark."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from target_spark.errors import SparkUnavailableError
from target_spark.spark.session import Session, SparkSettings
from target_spark.warm_engine.engine_folder import EngineFolder, receive_message, send_message
from target_spark.warm_engine.identity import Identity
from target_spark.warm_engine.server import EngineServer
from target_spark.warm_engine.start import start_engine

PATIENCE = 60


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EngineFolder:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return EngineFolder.make("key")


class SlowSession:
    """A Spark session that starts when it is told to, with a model of the JVM."""

    failure = application = jvm_pid = None

    def __init__(self) -> None:
        self.started = threading.Event()
        self._spark = MagicMock()
        self._spark.sparkContext._jsc.sc().isStopped.return_value = False
        jvm = self._spark.sparkContext._jvm
        jvm.java.lang.Thread.getAllStackTraces().keySet().toString.return_value = ""
        self.gateway = jvm.org.apache.spark.api.python.Py4JServer.return_value
        self.gateway.getListeningPort.return_value = 1
        self.gateway.secret.return_value = "token"

    def spark(self) -> Any:
        assert self.started.wait(PATIENCE)
        if self._spark is None:
            raise SparkUnavailableError("Spark was stopped.")
        return self._spark

    def stop(self) -> None:
        self._spark = None


@contextmanager
def run_server(session: SlowSession, listener: Any) -> Iterator[None]:
    server = EngineServer(cast(Session, session), PATIENCE)
    thread = threading.Thread(target=server.serve, args=(listener,))
    thread.start()
    try:
        yield
    finally:
        server.request_stop()
        thread.join(PATIENCE)


def wait_until(condition: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def test_run_that_is_killed_while_spark_starts_leaves_no_server_in_the_jvm(
    folder: EngineFolder,
) -> None:
    session = SlowSession()
    with folder.listen() as listener, run_server(session, listener):
        with folder.connect(PATIENCE) as connection:
            send_message(
                connection, {"request": "attach", "run": "killed", "pid": os.getpid(), "job": "j"}
            )
            wait_until(lambda: folder.request(PATIENCE, request="status")["runs"])
        session.started.set()
        wait_until(lambda: not folder.request(PATIENCE, request="status")["runs"])
        session.gateway.start.assert_called_once()
        session.gateway.shutdown.assert_called_once()


def test_run_is_no_longer_registered_if_spark_was_stopped_before_its_end(
    folder: EngineFolder, caplog: pytest.LogCaptureFixture
) -> None:
    session = SlowSession()
    session.started.set()
    with folder.listen() as listener, run_server(session, listener):
        with folder.connect(PATIENCE) as connection:
            send_message(
                connection, {"request": "attach", "run": "a", "pid": os.getpid(), "job": "j"}
            )
            assert receive_message(connection)[0]["token"] == "token"
            session.stop()
            send_message(connection, {"request": "end"})
            assert receive_message(connection)[0] == {"ended": True}
        assert folder.request(PATIENCE, request="status")["runs"] == []
    assert "could not be cancelled" in caplog.text


def test_engine_accepts_connections_again_after_it_had_too_many_open_files(
    folder: EngineFolder,
) -> None:
    with folder.listen() as listener:
        failures = [OSError(errno.EMFILE, os.strerror(errno.EMFILE))]

        def accept() -> Any:
            if failures:
                raise failures.pop()
            return listener.accept()

        flaky = SimpleNamespace(accept=accept, fileno=listener.fileno)
        with run_server(SlowSession(), flaky):
            assert folder.request(5, request="status")["runs"] == []


@pytest.mark.parametrize("data", [b'{"request": ', b"no JSON\n"], ids=["stalled", "invalid"])
def test_files_of_a_message_that_cannot_be_received_are_closed(data: bytes) -> None:
    """They are the locks of a job, which the next run of the job would wait for in vain."""
    reader, writer = os.pipe()
    run, engine = socket.socketpair()
    with run, engine, os.fdopen(reader, "rb") as pipe:
        engine.settimeout(0.1)
        socket.send_fds(run, [data], [writer])
        os.close(writer)
        with pytest.raises((OSError, ValueError)):
            receive_message(engine)
        os.set_blocking(reader, False)
        assert pipe.read() == b""  # None as long as the pipe is open for writing


def test_log_of_an_engine_has_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SEC5: the message of another program may contain a setting."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\necho 'no agent at https://me:pa55word@host, key k3y4567' >&2\nexit 1"
    )
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    conf = {
        "spark.jars.repositories": "https://me:pa55word@host",
        "spark.hadoop.key.pwd": "k3y4567",
    }
    settings = SparkSettings(master="local[1]", conf=conf, format="parquet")
    folder, connection, _ = start_engine(settings, Identity.of_run(settings))
    connection.close()
    wait_until(lambda: "The engine ends" in folder.log.read_text())
    log = folder.log.read_text()
    assert "no agent at https://***@host, key ***" in log
    assert "pa55word" not in log
