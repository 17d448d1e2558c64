"""The PostgreSQL sample under load: large tables, many tables, connection errors."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from tests.postgres import Server
from tests.process_memory import read_peak_memory
from tests.samples.postgres_tap import TAP, Source, environment, parse_lines

WIDE_ROWS = 400_000
ROWS_READ_AHEAD = 20_000
MEMORY = 150 << 20
STATEMENTS_PER_SCHEMA = 20
QUERY = re.compile(r"(statement|execute \S+): *(select|show)", re.IGNORECASE)
PASSWORD = "s3cret/w@rd:ü"


@pytest.fixture
def source(postgres: Server, tmp_path: Path) -> Iterator[Source]:
    with postgres.database() as database:
        yield Source(database, tmp_path)


@pytest.fixture
def wide(source: Source) -> Source:
    """A view of 400 MB, in which a sequence counts the rows that the server has read."""
    source.run(
        "CREATE SEQUENCE seen",
        "CREATE FUNCTION numbers() RETURNS SETOF int LANGUAGE sql"
        f" AS 'SELECT generate_series(1, {WIDE_ROWS})'",
        "CREATE VIEW wide AS SELECT nextval('seen') AS seen, i AS id, repeat(md5(i::text), 32) AS x"
        " FROM numbers() i",
    )
    return source


def started(source: Source, *streams: str, **kwargs: Any) -> subprocess.Popen[bytes]:
    command = source.command(dict.fromkeys(streams, kwargs.pop("key", None)), **kwargs)
    errors = (source.folder / "stderr").open("wb")
    with errors:
        return subprocess.Popen(
            command,
            cwd=source.folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=errors,
        )


def out(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdout is not None
    return process.stdout


# -------------------------------------------------------------------------- large tables
def test_first_record_is_sent_before_the_query_is_complete(wide: Source) -> None:
    with started(wide, "public-wide") as process:
        assert b'"SCHEMA"' in out(process).readline()
        assert b'"RECORD"' in out(process).readline()
        [(rows_read,)] = wide.run("SELECT last_value FROM seen")
        process.kill()
        out(process).read()
    assert rows_read <= ROWS_READ_AHEAD


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process's memory is in /proc")
def test_memory_is_bounded_for_a_large_table(wide: Source) -> None:
    lines, peak = streamed(wide, "public-wide")
    assert lines >= WIDE_ROWS
    assert peak < MEMORY


def streamed(source: Source, stream: str) -> tuple[int, int]:
    """Sync a stream; return the number of its messages and the peak memory of the tap."""
    peak, lines = 0, 0
    with started(source, stream) as process:
        while block := out(process).read(1 << 20):
            lines += block.count(b"\n")
            peak = max(peak, read_peak_memory(process.pid))
    assert process.returncode == 0
    assert peak > 0
    return lines, peak


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process's memory is in /proc")
def test_memory_is_bounded_for_rows_of_a_megabyte(source: Source) -> None:
    source.run(
        "CREATE VIEW huge AS SELECT i AS id, repeat('x', 1000000) AS x"
        " FROM generate_series(1, 300) i"
    )
    lines, peak = streamed(source, "public-huge")
    assert lines >= 300
    assert peak < MEMORY


# --------------------------------------------------------------------------- many tables
def create_tables(source: Source, schema: str, tables: int) -> None:
    """Create tables with keys, indexes, a decimal, an enum and an array."""
    name = source.database.name
    source.run(
        f"CREATE SCHEMA {schema}",
        f"CREATE TYPE {schema}.mood AS ENUM ('sad', 'ok')",
        "DO $$ BEGIN FOR i IN 1.." + f"{tables} LOOP EXECUTE format("
        f"'CREATE TABLE {schema}.t%s (id int PRIMARY KEY, n numeric(9, 2), x text UNIQUE,"
        f" m {schema}.mood, a int[][])', i); END LOOP; END $$",
        f"ALTER DATABASE {name} SET log_statement = 'all'",
    )


def count_queries(postgres: Server, source: Source) -> int:
    """Return the number of queries of this database since the last call."""
    log = postgres.log.read_text(errors="replace")
    source.run("SELECT 'counted'")
    own_lines = [line for line in log.splitlines() if f" {source.database.name} LOG:  " in line]
    queries = [line for line in own_lines if QUERY.search(line)]
    since = [number for number, line in enumerate(queries) if "'counted'" in line]
    return len(queries[since[-1] + 1 if since else 0 :])


@pytest.mark.thorough
def test_discovery_of_2000_tables_needs_no_more_queries_than_of_two(
    postgres: Server, source: Source
) -> None:
    create_tables(source, "few", 2)
    count_queries(postgres, source)
    assert len(source.discover(filter_schemas=["few"])) == 2
    for_few = count_queries(postgres, source)
    create_tables(source, "many", 2000)
    count_queries(postgres, source)
    streams = source.discover(filter_schemas=["many"])
    assert len(streams) == 2000
    assert count_queries(postgres, source) == for_few
    assert 0 < for_few <= STATEMENTS_PER_SCHEMA
    properties = streams["many-t2000"]["schema"]["properties"]
    assert properties["a"]["items"]["items"] == {"type": ["integer", "null"]}
    assert streams["many-t2000"]["key_properties"] == ["id"]


# ---------------------------------------------------------------------- errors
def run(source: Source, **settings: Any) -> tuple[int, str]:
    """Run discovery with other settings; return the exit code and the log."""
    process = subprocess.run(
        [*TAP, "--discover", "--config", source.config(settings)],
        cwd=source.folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.stdout == ""
    return process.returncode, process.stderr


def test_a_refused_connection_is_reported_without_the_password(source: Source) -> None:
    code, output = run(source, port=1, password=PASSWORD)
    assert code == 1
    assert "127.0.0.1:1" in output
    assert "refused" in output
    assert PASSWORD not in output
    assert "Traceback" not in output


def test_wrong_password_is_reported_and_not_shown(source: Source) -> None:
    code, output = run(source, password=PASSWORD)
    assert code == 1
    assert f'password authentication failed for user "{source.database.user}"' in output
    assert PASSWORD not in output
    assert "Traceback" not in output


def test_missing_database_is_reported(source: Source) -> None:
    code, output = run(source, database="nowhere")
    assert code == 1
    assert 'database "nowhere" does not exist' in output
    assert source.database.password not in output
    assert "Traceback" not in output


def test_invalid_url_is_reported_and_not_shown(source: Source) -> None:
    code, output = run(source, sqlalchemy_url=f"postgresql://u:{PASSWORD}@host:no/db")
    assert code == 1
    assert "URL" in output
    assert "w@rd" not in output
    assert "Traceback" not in output


def test_missing_connection_settings_are_named(source: Source) -> None:
    code, output = run(source, host="", database="")
    assert code == 1
    assert "'sqlalchemy_url'" in output
    assert "'host', 'database'" in output


def test_every_postgres_url_scheme_is_accepted(source: Source) -> None:
    for scheme in ("postgres", "postgresql", "postgresql+psycopg2", "postgresql+psycopg"):
        assert run_discovery(source, source.database.url_for(scheme)) == {}


def run_discovery(source: Source, url: str) -> dict[str, Any]:
    return source.discover(sqlalchemy_url=url, host=None)


def test_no_row_is_lost_after_a_terminated_connection(source: Source) -> None:
    rows = 60_000
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY, x text)",
        f"INSERT INTO t SELECT i, repeat('x', 200) FROM generate_series(1, {rows}) i",  # noqa: S608
    )
    with started(source, "public-t", key="id") as process:
        output = b"".join(out(process).readline() for _ in range(25_000))
        source.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'tap-postgres' AND datname = current_database()"
        )
        output += out(process).read()
    errors = (source.folder / "stderr").read_text()
    assert process.returncode == 1
    assert "terminating connection due to administrator command" in errors
    assert source.database.password not in errors
    messages = parse_lines(output)
    first = [m["record"]["id"] for m in messages if m["type"] == "RECORD"]
    states = [m["value"] for m in messages if m["type"] == "STATE"]
    bookmark = states[-1]["bookmarks"]["public-t"]["replication_key_value"]
    assert first == list(range(1, len(first) + 1))
    assert 10_000 <= bookmark <= len(first) < rows
    second = source.sync({"public-t": "id"}, state=states[-1]).records("public-t")
    assert [record["id"] for record in second] == list(range(bookmark, rows + 1))
