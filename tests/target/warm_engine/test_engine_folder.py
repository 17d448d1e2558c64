"""Files of engines, identities, and the settings that decide if an engine is used; no Spark."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from tap_core.exceptions import ConfigurationError
from tap_core.io.private_files import UntrustedPathError
from target_spark.cli import engine
from target_spark.config.settings import spark_settings
from target_spark.errors import SparkUnavailableError
from target_spark.spark.jvm import cache_folder
from target_spark.spark.session import SparkSettings
from target_spark.warm_engine.engine_folder import (
    EngineFolder,
    list_engines,
    receive_message,
    send_message,
    wait_for_engine,
)
from target_spark.warm_engine.identity import Identity, find_differences
from target_spark.warm_engine.session import looks_for_engine, may_use_engine
from tests.other_user import STRANGER, as_root, set_home

LOCAL = {"path": "/tables"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EngineFolder:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a-cache-with-a-long-name" / ("x" * 80)))
    return EngineFolder.make("key")


def open_all_files(folder: EngineFolder) -> None:
    """Open all files of an engine, as a run and a second engine do."""
    engine_folder = EngineFolder.find(folder.path.name)
    assert engine_folder is not None
    engine_folder.read_description()
    lock = engine_folder.lock()
    assert lock is not None
    os.close(lock)


@pytest.mark.parametrize("file_name", ["", "engine.json", "lock", ".."])
def test_files_that_others_can_reach_are_refused(folder: EngineFolder, file_name: str) -> None:
    """SEC23: the mode of each folder and file is checked before it is used."""
    folder.describe(pid=1)
    lock = folder.lock()
    assert lock is not None
    os.close(lock)
    (folder.path / file_name).chmod(0o755)
    with pytest.raises(UntrustedPathError, match="has mode 0755"):
        open_all_files(folder)


@as_root
@pytest.mark.parametrize("file_name", ["", "engine.json", "lock"])
def test_files_of_another_user_are_refused(folder: EngineFolder, file_name: str) -> None:
    """SEC23: the owner of each folder and file is checked before it is used."""
    folder.describe(pid=1)
    lock = folder.lock()
    assert lock is not None
    os.close(lock)
    os.chown(folder.path / file_name, STRANGER, STRANGER)
    with pytest.raises(UntrustedPathError, match="belongs to another user"):
        open_all_files(folder)
    if not file_name:
        with pytest.raises(UntrustedPathError, match="belongs to another user"):
            list_engines()


def test_link_instead_of_a_folder_is_refused(folder: EngineFolder, tmp_path: Path) -> None:
    """SEC23: no link is followed."""
    (folder.path.parent / "other").symlink_to(tmp_path)
    with pytest.raises(UntrustedPathError, match="is a link"):
        EngineFolder.find("other")


def test_second_lock_of_an_engine_is_refused_until_the_first_ends(folder: EngineFolder) -> None:
    first = folder.lock()
    assert first is not None
    assert folder.lock() is None
    os.close(first)
    second = folder.lock()
    assert second is not None
    os.close(second)


def test_messages_carry_open_files_through_a_long_path(folder: EngineFolder) -> None:
    reader, writer = os.pipe()
    with folder.listen() as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                _, files = receive_message(connection)
                os.write(files[0], b"from the engine")
                os.close(files[0])
                send_message(connection, {"done": True})

        thread = threading.Thread(target=serve)
        thread.start()
        with folder.connect(10) as connection:
            send_message(connection, {"request": "attach"}, [writer])
            os.close(writer)
            assert receive_message(connection)[0] == {"done": True}
        thread.join()
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == b"from the engine"


def test_socket_of_a_dead_engine_is_replaced(folder: EngineFolder) -> None:
    folder.listen().close()
    with pytest.raises(ConnectionRefusedError):
        folder.connect(1)
    with folder.listen():
        folder.connect(1).close()


def test_wait_lasts_until_the_jvm_of_a_dead_engine_has_ended(folder: EngineFolder) -> None:
    lock_descriptor = folder.lock()  # as the JVM holds it
    assert lock_descriptor is not None
    assert not wait_for_engine(str(folder.path), 0.2)
    threading.Timer(0.3, os.close, [lock_descriptor]).start()
    assert wait_for_engine(str(folder.path), 60)
    assert wait_for_engine(str(folder.path / "gone"), 0)
    lock_descriptor = folder.lock()
    with folder.listen():
        assert wait_for_engine(str(folder.path), 0)
    os.close(lock_descriptor or -1)


def test_closed_connection_is_an_error() -> None:
    sender, receiver = socket.socketpair()
    with sender, receiver:
        sender.sendall(b'{"half": ')
        sender.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionResetError):
            receive_message(receiver)


# Identity


@pytest.mark.parametrize(
    ("settings", "environ", "differences"),
    [
        ({"format": "iceberg"}, {}, ["format"]),
        ({"small_runs": True}, {}, ["small_runs"]),
        ({"conf": {"spark.x": "1"}}, {}, ["spark.x", "the working folder"]),
        ({"jars": ["/x.jar"]}, {}, ["jars", "the working folder"]),
        ({"addresses": ["s3a://bucket/tables"]}, {}, ["object storage"]),
        ({"addresses": ["abfss://c@a/tables"]}, {}, ["object storage"]),
        ({}, {"AWS_SECRET_ACCESS_KEY": "s3cret"}, ["variable AWS_SECRET_ACCESS_KEY"]),
        ({}, {"http_proxy": "http://proxy"}, ["variable http_proxy"]),
    ],
)
def test_difference_that_spark_could_see_gives_another_engine(
    settings: dict[str, Any], environ: dict[str, str], differences: list[str]
) -> None:
    first = Identity.of_run(SparkSettings(), {})
    second = Identity.of_run(SparkSettings(**settings), environ)
    assert first.key != second.key
    assert find_differences(first, second.parts) == differences
    assert "s3cret" not in repr(second)


def test_umask_is_part_of_the_identity() -> None:
    first = Identity.of_run(SparkSettings(), {})
    before = os.umask(0o027)
    try:
        second = Identity.of_run(SparkSettings(), {})
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert find_differences(first, second.parts) == ([] if before == 0o027 else ["umask"])


def test_tables_and_job_are_no_part_of_the_identity() -> None:
    first = SparkSettings(addresses=["/a"], scratch="/tmp/a", engine="keep")
    second = SparkSettings(addresses=["/b"], scratch="/tmp/b", engine_idle_seconds=1)
    environ = {"MELTANO_RUN_ID": "1"}
    assert Identity.of_run(first, {}) == Identity.of_run(second, environ)


# Settings


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (LOCAL, True),
        ({**LOCAL, "engine": None}, True),
        ({**LOCAL, "engine": "keep"}, True),
        ({**LOCAL, "engine": "never"}, False),
        ({**LOCAL, "master": "local[2]"}, True),
        ({**LOCAL, "master": "spark://host:7077"}, False),
        ({**LOCAL, "remote": "sc://host"}, False),
        ({"catalog": "spark_catalog", "path": "/tables"}, False),
        ({"database": "sales", "path": "/tables"}, False),
        ({**LOCAL, "streams": {"a": {"database": "sales"}}}, False),
        ({"catalog": "lake", "database": "sales"}, True),
        ({**LOCAL, "spark": {"spark.sql.defaultCatalog": "lake"}, "database": "sales"}, True),
    ],
)
def test_runs_that_cannot_share_a_spark_never_use_an_engine(
    config: dict[str, Any], expected: bool
) -> None:
    assert may_use_engine(spark_settings(config)) is expected


def test_run_with_retried_tasks_has_its_own_spark() -> None:
    assert not may_use_engine(SparkSettings(engine="keep").with_task_retries())


@pytest.mark.parametrize("home", ["/" + "x" * 300, None])
def test_user_whose_home_folder_cannot_be_read_has_no_engine(
    monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    set_home(monkeypatch, home)
    assert not looks_for_engine(spark_settings(LOCAL))
    assert EngineFolder.find("key") is None
    assert list_engines() == []


def test_cache_needs_a_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    set_home(monkeypatch, None)
    with pytest.raises(ConfigurationError, match="Set the environment variable HOME or XDG_CACHE"):
        cache_folder()
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert cache_folder() == Path("/c/target-spark")


def test_engine_that_does_not_respond_is_not_reported_as_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, its process is suspended."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(engine, "_RESPONSE_SECONDS", 0.1)
    settings = spark_settings(LOCAL)
    folder = EngineFolder.make(Identity.of_run(settings).key)
    with folder.listen():
        folder.describe(pid=4711)
        code, lines = engine.show_engines(settings)
        assert code == 1
        assert lines[0].startswith("The engine of process 4711 runs, but did not respond")
        with pytest.raises(SparkUnavailableError, match="process 4711 runs, but did not respond"):
            engine.stop(settings)
    assert engine.stop(settings) == (0, ["No engine with these settings is running."])
