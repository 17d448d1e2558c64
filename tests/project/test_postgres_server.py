"""The PostgreSQL server of the tests, which ends with the process that started it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from tests import postgres as postgres_server
from tests.postgres import Server, missing_reason, server_programs

ROOT = Path(__file__).resolve().parents[2]
DIES = """
import os, signal
from tests.postgres import shared_server
server = shared_server()
print(server.folder, server.maintenance.url_for("postgresql"), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
PATIENCE = 60


def test_database_exists_until_its_context_ends(postgres: Server) -> None:
    with postgres.database('od"d') as database:
        assert database.run("CREATE TABLE t AS SELECT 1 AS a", "SELECT a FROM t") == [(1,)]
        left_open = database.connect()
    with pytest.raises(psycopg.OperationalError):
        left_open.execute("SELECT 1")
    left_open.close()
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        database.connect()


def test_server_requires_its_password(postgres: Server) -> None:
    url = postgres.maintenance.url_for("postgresql").replace(postgres.password, "another")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(url)


def test_server_ends_when_its_process_is_killed(postgres: Server) -> None:
    process = subprocess.run(
        [sys.executable, "-c", DIES], cwd=ROOT, capture_output=True, text=True, check=False
    )
    folder, url = process.stdout.split()
    deadline = time.monotonic() + PATIENCE
    while Path(folder).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(folder).exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)


def test_missing_server_programs_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TAP_CORE_POSTGRES_BIN", raising=False)
    monkeypatch.setattr(postgres_server, "_list_folders", lambda: iter([tmp_path]))
    assert server_programs() is None
    assert "Debian's package postgresql" in missing_reason()
    with pytest.raises(FileNotFoundError, match="package postgresql"), postgres_server.server():
        pass


def test_configured_folder_must_contain_the_programs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TAP_CORE_POSTGRES_BIN", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="lacks initdb"):
        server_programs()


def test_installation_is_skipped_without_permission(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(postgres_server, "server_programs", lambda: None)
    monkeypatch.setattr(postgres_server, "_may_install", lambda: None)
    assert postgres_server.main([]) == 0
    assert "not installed: PostgreSQL's server programs" in capsys.readouterr().out
    monkeypatch.setattr(postgres_server, "_may_install", list)
    monkeypatch.setattr(postgres_server, "_install", lambda *_: False)
    assert postgres_server.main([]) == 1


def test_plugin_that_cannot_be_installed_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(postgres_server, "server_programs", lambda: tmp_path / "15" / "bin")
    monkeypatch.setattr(postgres_server, "_may_install", lambda: None)
    assert postgres_server.main(["wal2json"]) == 0
    assert "not installed: postgresql-15-wal2json" in capsys.readouterr().out
