"""A ``.env`` file in the working directory can set only the target's settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tap_core.protocols.fivetran.enums import DataType
from tests.target.cli.test_target_cli import record, run, schema, without_java
from tests.target.fivetran.fivetran_server import Destination, column, table

NO_JAVA = "No Java was found"


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """Write a ``.env`` file whose JAVA_HOME is a script; return the file that it creates."""
    java = tmp_path / "planted" / "bin" / "java"
    java.parent.mkdir(parents=True)
    trace = tmp_path / "java-ran"
    java.write_text(f"#!/bin/sh\n: > {trace}\n")
    java.chmod(0o755)
    lines = [
        f"JAVA_HOME={java.parent.parent}",
        f"PATH={java.parent}",
        "TARGET_SPARK_FORMAT=iceberg",
    ]
    (tmp_path / ".env").write_text("\n".join(lines))
    return trace


def test_run_with_config_env_does_not_start_java_of_a_dotenv_file(
    tmp_path: Path, planted: Path
) -> None:
    """SEC4: JAVA_HOME and PATH in a .env file do not choose the Java that is started."""
    env = {**without_java(), "TARGET_SPARK_PATH": str(tmp_path / "tables")}
    process = run(tmp_path, schema() + record(1), "--config=ENV", env=env)
    assert process.returncode == 1
    assert NO_JAVA in process.stderr.decode()
    assert '"format":"iceberg"' in process.stderr.decode()
    assert not planted.exists()


def test_fivetran_call_does_not_start_java_of_a_dotenv_file(
    tmp_path: Path, planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Fivetran destination reads the environment at each call."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    server = Destination(tmp_path / "home", {"path": str(tmp_path / "tables")})
    try:
        description = table("t", column("id", DataType.LONG, key=True))
        assert NO_JAVA in server.task("CreateTable", schema_name="s", table=description)
    finally:
        server.end()
    assert not planted.exists()
