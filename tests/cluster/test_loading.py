"""A load on a real standalone cluster gives the same tables as on one machine."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.loads import Load, batch, record, schema, state
from tests.cluster.standalone import StandaloneCluster

pytestmark = pytest.mark.spark

FORMATS = ("delta", "iceberg", "parquet")


@pytest.mark.thorough
def test_executors_upsert_rows_with_keys(standalone: StandaloneCluster, tmp_path: Path) -> None:
    """Two commits of one run: the first creates the table, the second merges into it."""
    load = Load(tmp_path, standalone, settings={"flush_rows": 200})
    first = (record("a", id=n, name="old") for n in range(200))
    updated = (record("a", id=n, name="new") for n in range(100, 300))
    run = load.run(schema("a", "id", id="integer", name="string"), *first, *updated, state(400))
    assert run.states() == [400]
    names = {row["id"]: row["name"] for row in load.rows("a")["a"]}
    assert names == {n: "old" if n < 100 else "new" for n in range(300)}
    assert len(load.rows("a")["a"]) == 300
    assert load.list_staging() == []
    (app,) = (
        app
        for app in standalone.state()["completedapps"]
        if app["id"] == run.report()["application"]
    )
    assert app["state"] == "FINISHED"


@pytest.mark.thorough
@pytest.mark.parametrize("form", FORMATS)
def test_every_write_mode_gives_the_tables_of_one_machine(
    standalone: StandaloneCluster, tmp_path: Path, form: str
) -> None:
    """Append, upsert, overwrite, quarantined rows, changed columns, batch files."""
    streams = {"whole": {"write_mode": "overwrite"}}
    load = Load(tmp_path, standalone, form, {"streams": streams, "flush_rows": 60})
    files = [_file(tmp_path / f"{n}.jsonl", n) for n in range(3)]
    load.run(
        schema("log", n="integer", text="string"),
        schema("kept", "id", id="integer", name="string"),
        schema("whole", "id", id="integer"),
        schema("files", n="integer"),
        *(record("log", n=n, text=f"line {n}") for n in range(100)),
        record("log", n="none", text="does not fit"),
        *(record("kept", id=n, name="old") for n in range(100)),
        *(record("whole", id=n) for n in range(50)),
        batch("files", *files),
        state({"bookmarks": {"round": 1}}),
    )
    run = load.run(
        schema("log", n="number", text="string", more="string"),
        schema("kept", "id", id="integer", name="string"),
        schema("whole", "id", id="integer"),
        *(record("log", n=n + 0.5, text=f"line {n}", more="x") for n in range(100, 150)),
        *(record("kept", id=n, name="new") for n in range(50, 150)),
        *(record("whole", id=n) for n in range(40, 60)),
        state({"bookmarks": {"round": 2}}),
    )
    assert run.states()[-1] == {"bookmarks": {"round": 2}}
    tables = load.rows("log", "log__quarantine", "kept", "whole", "files")
    numbers = sorted(row["n"] for row in tables["log"] if row.get("more") is None)
    assert numbers == [*range(100)]
    assert sum(row.get("more") == "x" for row in tables["log"]) == 50
    assert [json.loads(row["raw"])["n"] for row in tables["log__quarantine"]] == ["none"]
    assert sorted(row["id"] for row in tables["whole"]) == [*range(40, 60)]
    assert sorted(row["n"] for row in tables["files"]) == [*range(300)]
    upserted = sorted((row["id"], row["name"]) for row in tables["kept"])
    expected = [(n, "old" if n < 50 else "new") for n in range(150)]
    if form == "parquet":  # parquet cannot replace rows
        expected = sorted([*expected, *((n, "old") for n in range(50, 100))])
    assert upserted == expected
    assert load.list_staging() == []


@pytest.mark.thorough
def test_doctor_checks_the_folders_on_the_executors(
    standalone: StandaloneCluster, tmp_path: Path
) -> None:
    """`doctor` reports that executors read and write in both folders, and leaves no files."""
    load = Load(tmp_path / "job", standalone)
    process = load.word("doctor")
    output = process.stdout.decode()
    assert process.returncode == 0, output + process.stderr.decode()
    assert f"they read and write in staging ({load.staging}) and path ({load.tables})" in output
    assert not load.tables.exists()
    assert load.list_staging() == []


@pytest.mark.thorough
@pytest.mark.slow
def test_cluster_with_authentication_accepts_only_runs_with_its_secret(tmp_path: Path) -> None:
    """Set up as in the guide; no command line shows the secret, and doctor has no warning."""
    closed = {
        "spark.authenticate": "true",
        "spark.authenticate.secret": "SECRET-OF-THE-CLUSTER",
        "spark.network.crypto.enabled": "true",
    }
    with StandaloneCluster(tmp_path / "cluster", workers=1, conf=closed) as cluster:
        load = Load(tmp_path / "job", cluster, settings={"spark": closed})
        with load.running() as run:
            run.send(schema("a", id="integer"), *(record("a", id=n) for n in range(10)))
            cluster.wait_for_executors()
            lines = list(_commands())
            run.send(state(1))
            assert run.end() == 0, run.read_log()
        assert any(b"CoarseGrainedExecutorBackend" in line for line in lines)
        assert not [line for line in lines if b"SECRET-OF-THE-CLUSTER" in line]
        assert sorted(row["id"] for row in load.rows("a")["a"]) == [*range(10)]
        output = load.word("doctor").stdout.decode()
        assert "ok       security" in output, output
        stranger = Load(tmp_path / "stranger", cluster)
        process = stranger.word("doctor")
        output = process.stdout.decode()
        assert process.returncode == 1, output
        assert "warning  security       anyone who reaches the ports" in output


def _commands() -> Iterator[bytes]:
    """Yield the command lines of all processes of this machine."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes()


@pytest.mark.thorough
@pytest.mark.parametrize("hidden", ["staging", "tables"])
def test_folder_missing_on_one_worker_is_rejected_before_any_write(
    tmp_path: Path, hidden: str
) -> None:
    """One worker has another file system mounted in place of the folder."""
    apart = tmp_path / hidden
    apart.mkdir()
    private = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs none {apart} && exec "$@"', "-"]
    with StandaloneCluster(tmp_path / "cluster", workers=1, cores=1) as cluster:
        try:
            cluster.add_worker(command_prefix=private)
        except TimeoutError:
            pytest.skip("this system allows no mounts")
        load = Load(tmp_path, cluster)
        run = load.run(schema("a", "id", id="integer"), record("a", id=1), state(1), code=1)
        setting = {"tables": "path"}.get(hidden, hidden)
        assert f"{setting}: Spark's executors cannot use {apart}" in run.read_log()
        assert "a folder that every worker has under the same path" in run.read_log()
        assert run.states() == []
        assert load.rows("a") == {"a": []}
        assert load.list_staging() == []


@pytest.mark.thorough
def test_unreachable_master_is_an_error_that_names_it(
    standalone: StandaloneCluster, tmp_path: Path
) -> None:
    """The run ends, and the error names the setting."""
    load = Load(tmp_path, standalone)
    run = load.run(schema("a", id="integer"), record("a", id=1), code=1, master=_NOWHERE)
    text = f"Spark did not start: {_NOWHERE} (the setting master) accepted no application."
    assert run.report()["outcome"].startswith(text)


_NOWHERE = "spark://127.0.0.1:9"


def _file(path: Path, number: int) -> Path:
    rows = range(100 * number, 100 * number + 100)
    path.write_text("".join(json.dumps({"n": n}) + "\n" for n in rows))
    return path
