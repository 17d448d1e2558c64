"""A load on a real standalone cluster makes the tables that it makes on one machine."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.loads import Load, batch, record, schema, state
from tests.cluster.standalone import Standalone

pytestmark = pytest.mark.spark

FORMATS = ("delta", "iceberg", "parquet")


@pytest.mark.thorough
def test_keyed_rows_are_upserted_by_executors(standalone: Standalone, tmp_path: Path) -> None:
    """Two commits of one run: the first makes the table, the second meets its rows."""
    load = Load(tmp_path, standalone, settings={"flush_rows": 200})
    first = (record("a", id=n, name="old") for n in range(200))
    again = (record("a", id=n, name="new") for n in range(100, 300))
    done = load.run(schema("a", "id", id="integer", name="string"), *first, *again, state(400))
    assert done.states() == [400]
    names = {row["id"]: row["name"] for row in load.rows("a")["a"]}
    assert names == {n: "old" if n < 100 else "new" for n in range(300)}
    assert len(load.rows("a")["a"]) == 300
    assert load.left() == []
    (app,) = (
        app
        for app in standalone.state()["completedapps"]
        if app["id"] == done.report()["application"]
    )
    assert app["state"] == "FINISHED"


@pytest.mark.thorough
@pytest.mark.parametrize("form", FORMATS)
def test_every_way_of_writing_makes_the_tables_of_one_machine(
    standalone: Standalone, tmp_path: Path, form: str
) -> None:
    """Append, upsert, overwrite, rows that do not fit, columns that change, files of rows."""
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
    done = load.run(
        schema("log", n="number", text="string", more="string"),
        schema("kept", "id", id="integer", name="string"),
        schema("whole", "id", id="integer"),
        *(record("log", n=n + 0.5, text=f"line {n}", more="x") for n in range(100, 150)),
        *(record("kept", id=n, name="new") for n in range(50, 150)),
        *(record("whole", id=n) for n in range(40, 60)),
        state({"bookmarks": {"round": 2}}),
    )
    assert done.states()[-1] == {"bookmarks": {"round": 2}}
    found = load.rows("log", "log__quarantine", "kept", "whole", "files")
    numbers = sorted(row["n"] for row in found["log"] if row.get("more") is None)
    assert numbers == [*range(100)]
    assert sum(row.get("more") == "x" for row in found["log"]) == 50
    assert [json.loads(row["raw"])["n"] for row in found["log__quarantine"]] == ["none"]
    assert sorted(row["id"] for row in found["whole"]) == [*range(40, 60)]
    assert sorted(row["n"] for row in found["files"]) == [*range(300)]
    kept = sorted((row["id"], row["name"]) for row in found["kept"])
    expected = [(n, "old" if n < 50 else "new") for n in range(150)]
    if form == "parquet":  # which cannot replace a row
        expected = sorted([*expected, *((n, "old") for n in range(50, 100))])
    assert kept == expected
    assert load.left() == []


@pytest.mark.thorough
def test_doctor_lets_the_executors_try_the_folders(standalone: Standalone, tmp_path: Path) -> None:
    """It says what they can do, and leaves no trace."""
    load = Load(tmp_path / "job", standalone)
    done = load.word("doctor")
    told = done.stdout.decode()
    assert done.returncode == 0, told + done.stderr.decode()
    assert f"they read and write in staging ({load.staging}) and path ({load.tables})" in told
    assert not load.tables.exists()
    assert load.left() == []


@pytest.mark.thorough
@pytest.mark.slow
def test_a_cluster_that_asks_for_a_secret_is_loaded_by_those_who_have_it(tmp_path: Path) -> None:
    """Set up as in the guide; the secret is on no command line, and doctor has no warning."""
    closed = {
        "spark.authenticate": "true",
        "spark.authenticate.secret": "SECRET-OF-THE-CLUSTER",
        "spark.network.crypto.enabled": "true",
    }
    with Standalone(tmp_path / "cluster", workers=1, conf=closed) as cluster:
        load = Load(tmp_path / "job", cluster, settings={"spark": closed})
        with load.running() as run:
            run.send(schema("a", id="integer"), *(record("a", id=n) for n in range(10)))
            cluster.wait_for_executors()
            lines = list(_commands())
            run.send(state(1))
            assert run.end() == 0, run.said()
        assert any(b"CoarseGrainedExecutorBackend" in line for line in lines)
        assert not [line for line in lines if b"SECRET-OF-THE-CLUSTER" in line]
        assert sorted(row["id"] for row in load.rows("a")["a"]) == [*range(10)]
        told = load.word("doctor").stdout.decode()
        assert "ok       security" in told, told
        stranger = Load(tmp_path / "stranger", cluster)
        done = stranger.word("doctor")
        told = done.stdout.decode()
        assert done.returncode == 1, told
        assert "warning  security       anyone who reaches the ports" in told


def _commands() -> Iterator[bytes]:
    """Yield the command lines of all processes of this machine."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes()


@pytest.mark.thorough
@pytest.mark.parametrize("hidden", ["staging", "tables"])
def test_a_folder_that_one_worker_does_not_have_is_refused_before_a_row_is_written(
    tmp_path: Path, hidden: str
) -> None:
    """A worker with a file system of its own in the folder's place; the other one has it."""
    apart = tmp_path / hidden
    apart.mkdir()
    private = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs none {apart} && exec "$@"', "-"]
    with Standalone(tmp_path / "cluster", workers=1, cores=1) as cluster:
        try:
            cluster.add_worker(through=private)
        except TimeoutError:
            pytest.skip("this system allows no mounts")
        load = Load(tmp_path, cluster)
        done = load.run(schema("a", "id", id="integer"), record("a", id=1), state(1), code=1)
        setting = {"tables": "path"}.get(hidden, hidden)
        assert f"{setting}: Spark's executors cannot use {apart}" in done.said()
        assert "a folder that every worker has under the same path" in done.said()
        assert done.states() == []
        assert load.rows("a") == {"a": []}
        assert load.left() == []


@pytest.mark.thorough
def test_a_master_that_is_not_there_is_named(standalone: Standalone, tmp_path: Path) -> None:
    """The run ends, with what to look at."""
    load = Load(tmp_path, standalone)
    done = load.run(schema("a", id="integer"), record("a", id=1), code=1, master=_NOWHERE)
    said = f"Spark did not start: {_NOWHERE} (the setting master) accepted no application."
    assert done.report()["outcome"].startswith(said)


_NOWHERE = "spark://127.0.0.1:9"


def _file(path: Path, number: int) -> Path:
    rows = range(100 * number, 100 * number + 100)
    path.write_text("".join(json.dumps({"n": n}) + "\n" for n in rows))
    return path
