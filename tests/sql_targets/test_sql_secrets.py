"""Logs and errors of a SQL target never contain the password of its database."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from tests.sql_targets.small_target import SmallTarget, load
from tests.target_base.messages import record, schema

ROOT = Path(__file__).resolve().parents[2]
SECRET = "hunter2-and-more"
PROGRAM = "from tests.sql_targets.small_target import SmallTarget; SmallTarget.cli()"


UNREACHABLE = f"postgresql+psycopg://me:{SECRET}@127.0.0.1:1/db?connect_timeout=2"


@pytest.mark.parametrize(
    "url",
    [
        UNREACHABLE,
        f"postgresql+psycopg://me:{SECRET}@127.0.0.1:port/db",
        f"nothing+known://me:{SECRET}@host/db",
        f"me:{SECRET}@host",
    ],
)
def test_error_of_an_unreachable_database_does_not_show_the_password(url, caplog):
    target = SmallTarget(config={"sqlalchemy_url": url})
    with caplog.at_level(logging.DEBUG), pytest.raises(Exception, match=r"\w") as caught:
        target.listen(io.StringIO(schema() + record(id=1)))
    trace = "".join(traceback.format_exception(caught.value))
    assert SECRET not in trace + caplog.text + repr(caught.value)


def test_command_output_does_not_show_the_password(tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"sqlalchemy_url": UNREACHABLE}))
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, "--config", str(config)],
        input=schema() + record(id=1),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        env={"TARGET_SMALL_LOGLEVEL": "DEBUG", "PATH": ""},
    )
    assert process.returncode != 0
    assert "127.0.0.1" in process.stderr
    assert SECRET not in process.stderr + process.stdout


def test_password_rejected_by_the_server_is_not_logged(postgres_url, caplog):
    password = postgres_url.split("@")[0].rpartition(":")[2]
    with caplog.at_level(logging.DEBUG), pytest.raises(Exception, match="password") as caught:
        load(SmallTarget, postgres_url.replace(password, SECRET), schema(), record(id=1))
    assert SECRET not in caplog.text + str(caught.value) + repr(caught.value)


def test_successful_run_logs_statements_but_not_the_password(postgres_url, caplog):
    password = postgres_url.split("@")[0].rpartition(":")[2]
    with caplog.at_level(logging.DEBUG):
        load(SmallTarget, postgres_url, schema(), record(id=1))
    assert "Inserting with SQL: INSERT INTO a (id, name) VALUES (:id, :name)" in caplog.text
    assert password not in caplog.text
