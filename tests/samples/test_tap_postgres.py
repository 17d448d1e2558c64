"""The PostgreSQL sample: exact values of every type, all relations, and incremental syncs."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.postgres import Server
from tests.samples.postgres_tap import SAMPLE, Source, TapPostgres, environment

ODD_NAMES = [
    "Upper",
    "with space",
    "with.dot",
    'with"quote',
    "with'apostrophe",
    "with-dash",
    "with%percent",
    "with:colon",
    "with(brackets)",
    "with\\backslash",
    "select",
    "名前😀",
    "x" * 63,
]


@pytest.fixture
def source(postgres: Server, tmp_path: Path) -> Iterator[Source]:
    with postgres.database() as database:
        yield Source(database, tmp_path)


# ------------------------------------------------------------------------------ values
TYPES: list[tuple[str, str, Any]] = [
    ("smallint", "'-32768'", -32768),
    ("integer", "'2147483647'", 2147483647),
    ("bigint", "'9223372036854775807'", 9223372036854775807),
    ("numeric", "'1234567890123456789012345678901234567890.0123456789012345678901234567890'", ...),
    ("numeric(12, 2)", "'1234567890.10'", Decimal("1234567890.10")),
    ("numeric(38, 0)", "'99999999999999999999999999999999999999'", int("9" * 38)),
    ("numeric(38, 37)", "'1.2345678901234567890123456789012345678'", ...),
    ("money", "'12345.67'", "$12,345.67"),
    ("real", "'1.1'", Decimal("1.1")),
    ("double precision", "'0.1'", Decimal("0.1")),
    ("double precision", "'5e-324'", Decimal("5e-324")),
    ("double precision", "'NaN'", None),
    ("real", "'-Infinity'", None),
    ("numeric", "'NaN'", None),
    ("numeric", "'Infinity'", None),
    ("boolean", "'t'", True),
    ("text", "E'a\\tb\\n\"q\" \\\\ 😀'", 'a\tb\n"q" \\ 😀'),
    ("varchar(3)", "'vä😀'", "vä😀"),
    ("char(4)", "'ab'", "ab  "),
    ('"char"', "'x'", "x"),
    ("name", "'n'", "n"),
    ("bytea", "'\\xdeadbeef00'", "deadbeef00"),
    ("date", "'2024-02-29'", "2024-02-29"),
    ("date", "'infinity'", "9999-12-31"),
    ("date", "'-infinity'", "0001-01-01"),
    ("date", "'0044-03-15 BC'", "0001-01-01"),
    ("date", "'10000-01-01'", "9999-12-31"),
    ("time", "'12:34:56.789'", "12:34:56.789"),
    ("time", "'24:00'", "24:00:00"),
    ("timetz", "'12:34:56.5+02'", "12:34:56.5+02:00"),
    ("timetz", "'12:34:56-05:30'", "12:34:56-05:30"),
    ("timestamp", "'2024-02-29 12:34:56'", "2024-02-29T12:34:56.000000+00:00"),
    ("timestamp", "'2024-02-29 12:34:56.5'", "2024-02-29T12:34:56.500000+00:00"),
    ("timestamp", "'infinity'", "9999-12-31T23:59:59.999999+00:00"),
    ("timestamp", "'0044-03-15 01:02:03.25 BC'", "0001-01-01T00:00:00.000000+00:00"),
    ("timestamptz", "'2024-02-29 12:34:56.123456+05:30'", "2024-02-29T07:04:56.123456+00:00"),
    ("timestamptz", "'2024-02-29 12:34:56+00'", "2024-02-29T12:34:56.000000+00:00"),
    ("timestamptz", "'-infinity'", "0001-01-01T00:00:00.000000+00:00"),
    ("timestamptz", "'10000-01-01 00:00:00.12345+00'", "9999-12-31T23:59:59.999999+00:00"),
    ("interval", "'1 year 2 mons -3 days 04:05:06.789'", "P1Y2M-3DT4H5M6.789S"),
    ("uuid", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("json", "'{\"a\": [1.10, null]}'", {"a": [Decimal("1.10"), None]}),
    ("json", "'[123456789012345678901234567890.5]'", [Decimal("123456789012345678901234567890.5")]),
    ("json", "'\"\\ud83d\"'", "?"),
    ("jsonb", "'\"text\"'", "text"),
    ("jsonb", "'null'", None),
    ("jsonb", '\'{"1": {"2": {}}}\'', {"1": {"2": {}}}),
    ("integer[]", "'{1,NULL,3}'", [1, None, 3]),
    ("integer[][]", "'{{1,2},{3,4}}'", [[1, 2], [3, 4]]),
    ("text[]", "'{}'", []),
    ("text[]", '\'{"a,b",NULL,"NULL","q\\""}\'', ["a,b", None, "NULL", 'q"']),
    ("numeric[]", "'{1.10,NaN}'", [Decimal("1.10"), None]),
    ("date[]", "'{2024-02-29,infinity}'", ["2024-02-29", "9999-12-31"]),
    ("timestamptz[]", "'{\"2024-02-29 12:00+02\"}'", ["2024-02-29T10:00:00.000000+00:00"]),
    ("jsonb[]", "array['{\"a\": 1.50}']::jsonb[]", [{"a": Decimal("1.50")}]),
    ("bytea[]", "array['\\x01']::bytea[]", ["01"]),
    (
        "uuid[]",
        "'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'",
        ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    ),
    ("interval[]", "'{1 day}'", ["P1D"]),
    ("inet[]", "'{10.0.0.1}'", ["10.0.0.1"]),
    ("xml[]", "array['<a/>']::xml[]", ["<a/>"]),
    ("box[]", "array['((0,0),(1,1))']::box[]", ["(1,1),(0,0)"]),
    ("mood[]", "'{sad,happy}'", ["sad", "happy"]),
    ("pair[]", "array[row(1, 'x y')]::pair[]", ['(1,"x y")']),
    ("small[]", "'{1,2}'", [1, 2]),
    ("int4range[]", "'{\"[1,5)\"}'", ["[1,5)"]),
    ("mood", "'happy'", "happy"),
    ("small", "'5'", 5),
    ("price", "'10.50'", Decimal("10.50")),
    ("numbers", "'{1,2}'", [1, 2]),
    ("pair", "row(1, 'a \"b\", c')", '(1,"a ""b"", c")'),
    ("int4range", "'[1,10)'", "[1,10)"),
    ("numrange", "'(1.5,2.50]'", "(1.5,2.50]"),
    ("tstzrange", "'[2024-01-01 00:00+00,)'", '["2024-01-01 00:00:00+00",)'),
    ("floatrange", "'[1.5,2.5]'", "[1.5,2.5]"),
    ("inet", "'192.168.0.1/24'", "192.168.0.1/24"),
    ("cidr", "'10.0.0.0/8'", "10.0.0.0/8"),
    ("macaddr", "'08:00:2b:01:02:03'", "08:00:2b:01:02:03"),
    ("xml", "'<a>1</a>'", "<a>1</a>"),
    ("tsvector", "'quick fox'", "'fox' 'quick'"),
    ("tsquery", "'quick & fox'", "'quick' & 'fox'"),
    ("bit(5)", "B'10101'", "10101"),
    ("varbit", "B'101'", "101"),
    ("oid", "'4294967295'", 4294967295),
    ("regclass", "'pg_class'", "pg_class"),
    ("pg_lsn", "'16/B374D848'", "16/B374D848"),
    ("point", "'(1.5,2)'", "(1.5,2)"),
    ("line", "'{1,2,3}'", "{1,2,3}"),
    ("polygon", "'((0,0),(1,1),(2,0))'", "((0,0),(1,1),(2,0))"),
    ("circle", "'<(0,0),5>'", "<(0,0),5>"),
]
"""A column's type, a value in SQL, and the expected value; ... if it is the SQL literal."""

MAKE_TYPES = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE DOMAIN small AS int CHECK (value > 0)",
    "CREATE DOMAIN price AS numeric(12, 2)",
    "CREATE DOMAIN numbers AS int[]",
    "CREATE TYPE floatrange AS RANGE (subtype = float8)",
)


def create_table_of_all_types(source: Source) -> None:
    """Create a table with a column per entry of TYPES, a row of values and a row of nulls."""
    columns = ", ".join(f"c{number} {kind}" for number, (kind, _, _) in enumerate(TYPES))
    values = ", ".join(value for _, value, _ in TYPES)
    source.run(
        *MAKE_TYPES,
        f"CREATE TABLE kinds (id int PRIMARY KEY, {columns})",
        f"INSERT INTO kinds VALUES (1, {values}); INSERT INTO kinds (id) VALUES (2)",  # noqa: S608
    )


def test_every_type_is_exact_and_valid_by_its_schema(source: Source) -> None:
    create_table_of_all_types(source)
    result = source.sync({"public-kinds": None})
    assert result.code == 0, result.log
    validator = jsonschema.Draft7Validator(
        result.schema("public-kinds"), format_checker=jsonschema.FormatChecker(["date"])
    )
    values, nulls = result.records("public-kinds")
    with localcontext() as context:
        context.prec = 100  # or jsonschema cannot divide
        assert list(validator.iter_errors(values)) == []
    assert list(validator.iter_errors(nulls)) == []
    assert nulls == {"id": 2, **{f"c{number}": None for number in range(len(TYPES))}}
    for number, (kind, literal, value) in enumerate(TYPES):
        expected = Decimal(literal.strip("'")) if value is ... else value
        assert values[f"c{number}"] == expected, kind
    assert result.log.count("cannot be written in ISO 8601") == 1
    assert "Did not recognize" not in result.log


def test_scale_of_a_decimal_is_in_its_schema(source: Source) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY, a numeric(10, 2), b numeric(9), c numeric)")
    properties = source.discover()["public-t"]["schema"]["properties"]
    assert properties["a"]["multipleOf"] == Decimal("0.01")
    assert properties["b"]["multipleOf"] == 1
    assert "multipleOf" not in properties["c"]


def test_use_singer_decimal_sends_numbers_as_strings(source: Source) -> None:
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY, n numeric(10, 2), d float8, a numeric[])",
        "INSERT INTO t VALUES (1, 1.10, 1e300, '{1.10}'), (2, 'NaN', '-Infinity', '{}')",
    )
    result = source.sync(use_singer_decimal=True)
    schema = result.schema("public-t")
    first, second = result.records("public-t")
    jsonschema.validate(first, schema)
    jsonschema.validate(second, schema)
    assert first == {"id": 1, "n": "1.10", "d": "1e+300", "a": ["1.10"]}
    assert second == {"id": 2, "n": None, "d": None, "a": []}
    assert schema["properties"]["n"]["type"] == ["string", "null"]


def test_dates_as_string_sends_the_servers_text(source: Source) -> None:
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY, d date, ts timestamp, tz timestamptz)",
        "INSERT INTO t VALUES (1, '0044-03-15 BC', 'infinity', '10000-01-01 02:00+02')",
    )
    result = source.sync(dates_as_string=True)
    [record] = result.records("public-t")
    jsonschema.validate(record, result.schema("public-t"))
    assert record == {
        "id": 1,
        "d": "0044-03-15 BC",
        "ts": "infinity",
        "tz": "10000-01-01 00:00:00+00",
    }
    assert result.schema("public-t")["properties"]["tz"] == {"type": ["string", "null"]}


def test_json_as_object_declares_json_columns_as_objects(source: Source) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY, j jsonb)")
    properties = source.discover(json_as_object=True)["public-t"]["schema"]["properties"]
    assert properties["j"] == {"type": ["object", "null"], "additionalProperties": True}


def test_server_settings_of_the_database_do_not_change_values(source: Source) -> None:
    name = source.database.name
    source.run(
        f"ALTER DATABASE {name} SET DateStyle = 'German'",
        f"ALTER DATABASE {name} SET TimeZone = 'Asia/Kolkata'",
        f"ALTER DATABASE {name} SET IntervalStyle = 'sql_standard'",
        f"ALTER DATABASE {name} SET extra_float_digits = -3",
        f"ALTER DATABASE {name} SET bytea_output = 'escape'",
        f"ALTER DATABASE {name} SET client_encoding = 'LATIN1'",
        "CREATE TABLE t (x text, d date, tz timestamptz, i interval, f float8, b bytea)",
        "SET client_encoding = 'UTF8'; INSERT INTO t"
        " VALUES ('😀', '2024-02-29', '2024-02-29 12:00+00', '1 day', 0.1, '\\x01ff')",
    )
    [record] = source.sync().records("public-t")
    assert record == {
        "x": "😀",
        "d": "2024-02-29",
        "tz": "2024-02-29T12:00:00.000000+00:00",
        "i": "P1D",
        "f": Decimal("0.1"),
        "b": "01ff",
    }


def test_time_limit_of_idle_transactions_does_not_end_a_slow_run(source: Source) -> None:
    source.run(
        f"ALTER DATABASE {source.database.name} SET idle_in_transaction_session_timeout = 50"
    )
    source.run("CREATE TABLE t AS SELECT generate_series(1, 2500) AS id")
    tap = TapPostgres(config=source.database.settings)
    try:
        rows = iter(tap.streams["public-t"].get_records(None))
        next(rows)
        time.sleep(0.3)
        assert sum(1 for _ in rows) == 2499
    finally:
        tap.tap_connector._engine.dispose()


def test_hstore_and_citext_are_read(source: Source) -> None:
    available = {name for (name,) in source.run("SELECT name FROM pg_available_extensions")}
    if not {"hstore", "citext"} <= available:
        pytest.skip("this server has no hstore: Debian's package postgresql brings it")
    source.run(
        "CREATE EXTENSION hstore",
        "CREATE EXTENSION citext",
        "CREATE TABLE t (id int PRIMARY KEY, h hstore, ha hstore[], c citext, ca citext[])",
        "INSERT INTO t VALUES (1, 'a=>1, b=>NULL', array['a=>1'::hstore], 'Ab', '{Ab}')",
    )
    result = source.sync()
    [record] = result.records("public-t")
    jsonschema.validate(record, result.schema("public-t"))
    assert record == {
        "id": 1,
        "h": {"a": "1", "b": None},
        "ha": [{"a": "1"}],
        "c": "Ab",
        "ca": ["Ab"],
    }


# ------------------------------------------------------------------------- relations
def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_unusual_schema_table_and_column_names_are_kept(source: Source) -> None:
    columns = ", ".join(f"{number} AS {quoted(name)}" for number, name in enumerate(ODD_NAMES))
    statements = [
        f"CREATE TABLE {quoted(name)} AS SELECT {number} AS id, {columns}"
        for number, name in enumerate(ODD_NAMES)
    ]
    source.run(*statements)
    source.run('CREATE SCHEMA "odd.Schema"', 'CREATE TABLE "odd.Schema"."odd.Table" AS SELECT 1 a')
    keyed: dict[str, str | None] = {f"public-{name}": name for name in ODD_NAMES}
    result = source.sync({**keyed, "odd.Schema-odd.Table": None})
    assert result.code == 0, result.log
    for number, name in enumerate(ODD_NAMES):
        [record] = result.records(f"public-{name}")
        assert record == {"id": number, **{name: index for index, name in enumerate(ODD_NAMES)}}
    assert result.records("odd.Schema-odd.Table") == [{"a": 1}]
    second = source.sync(keyed, state=result.state)
    assert all(len(second.records(stream)) == 1 for stream in keyed), second.log


def test_deselected_column_is_not_queried(source: Source) -> None:
    source.run(
        "CREATE FUNCTION fails() RETURNS int AS 'BEGIN RAISE ''asked''; END' STABLE LANGUAGE"
        " plpgsql",
        "CREATE VIEW v AS SELECT 1 AS id, fails() AS bad",
    )
    failed = source.sync()
    assert failed.code == 1
    assert "RaiseException" in failed.log
    result = source.sync(without={"bad"})
    assert result.records("public-v") == [{"id": 1}], result.log


def test_tables_views_and_partitioned_tables_are_streams(source: Source) -> None:
    source.run(
        "CREATE TABLE plain (id int PRIMARY KEY, x text)",
        "INSERT INTO plain VALUES (1, 'a'), (2, 'b')",
        "CREATE VIEW seen AS SELECT * FROM plain WHERE id > 1",
        "CREATE MATERIALIZED VIEW kept AS SELECT id FROM plain",
        "CREATE MATERIALIZED VIEW unfilled AS SELECT id FROM plain WITH NO DATA",
        "CREATE TABLE parted (id int, day date) PARTITION BY RANGE (day)",
        "CREATE TABLE parted_1 PARTITION OF parted DEFAULT",
        "INSERT INTO parted VALUES (1, '2024-05-05')",
        "CREATE TABLE parent (id int)",
        "CREATE TABLE child (y int) INHERITS (parent)",
        "CREATE TABLE empty (id int PRIMARY KEY)",
        "CREATE TABLE without_columns ()",
        "INSERT INTO without_columns DEFAULT VALUES",
    )
    result = source.sync()
    assert result.code == 0, result.log
    streams = {m["stream"] for m in result.messages if m["type"] == "SCHEMA"}
    names = "plain seen kept parted parent child empty without_columns"
    assert streams == {f"public-{name}" for name in names.split()}
    assert result.records("public-seen") == [{"id": 2, "x": "b"}]
    assert result.records("public-kept") == [{"id": 1}, {"id": 2}]
    assert result.records("public-parted") == [{"id": 1, "day": "2024-05-05"}]
    assert result.records("public-empty") == []
    assert result.records("public-without_columns") == [{}]


def test_foreign_tables_are_streams(source: Source, tmp_path: Path) -> None:
    if not source.run("SELECT 1 FROM pg_available_extensions WHERE name = 'file_fdw'"):
        pytest.skip("this server has no file_fdw: Debian's package postgresql brings it")
    source.run(
        "CREATE EXTENSION file_fdw",
        "CREATE SERVER files FOREIGN DATA WRAPPER file_fdw",
        "CREATE FOREIGN TABLE far (id int, x text) SERVER files"
        " OPTIONS (program 'echo 1,a', format 'csv')",
    )
    assert source.sync().records("public-far") == [{"id": 1, "x": "a"}]


def test_keys_come_from_primary_keys_and_full_unique_indexes(source: Source) -> None:
    source.run(
        "CREATE TABLE none (a int)",
        "CREATE TABLE composite (a int, b int, c int, PRIMARY KEY (c, a))",
        "CREATE TABLE indexed (a int NOT NULL, b int NOT NULL, UNIQUE (b, a))",
        "CREATE TABLE nullable (a int UNIQUE)",
        "CREATE TABLE partial (a int NOT NULL, b int)",
        "CREATE UNIQUE INDEX ON partial (a) WHERE b > 1",
        "CREATE TABLE expressed (a int NOT NULL)",
        "CREATE UNIQUE INDEX ON expressed (abs(a))",
    )
    entries = source.discover()
    keys = {name.partition("-")[2]: entry["key_properties"] for name, entry in entries.items()}
    assert keys == {
        "none": [],
        "composite": ["c", "a"],
        "indexed": ["b", "a"],
        "nullable": [],
        "partial": [],
        "expressed": [],
    }


def test_equal_table_names_in_two_schemas_are_two_streams(source: Source) -> None:
    source.run(
        "CREATE SCHEMA one",
        "CREATE SCHEMA two",
        "CREATE TABLE one.t AS SELECT 1 AS a",
        "CREATE TABLE two.t AS SELECT 'x' AS b",
    )
    result = source.sync()
    assert result.records("one-t") == [{"a": 1}]
    assert result.records("two-t") == [{"b": "x"}]
    assert set(source.discover(filter_schemas=["two"])) == {"two-t"}


def test_tables_without_permission_are_not_discovered(source: Source) -> None:
    role = f"reader_{source.database.name}"
    source.run(
        f"CREATE ROLE {role} LOGIN PASSWORD 'secret-of-reader'",
        "CREATE SCHEMA closed",
        "CREATE TABLE closed.t AS SELECT 1 AS a",
        "CREATE TABLE open AS SELECT 1 AS a",
        "CREATE TABLE shut AS SELECT 1 AS a",
        f"GRANT SELECT ON open, closed.t TO {role}",
    )
    try:
        streams = source.discover(user=role, password="secret-of-reader")
    finally:
        source.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")
    assert set(streams) == {"public-open"}


# --------------------------------------------------------------------------- increments
INCREMENTS: list[tuple[str, list[str], Any]] = [
    ("integer", ["-1", "5", "7", "9"], 7),
    ("bigint", ["1", "9007199254740993", "9007199254740995", "9007199254740997"], 9007199254740995),
    ("numeric(30, 10)", ["1", "2.5", "12345678901234567890.1", "12345678901234567890.2"], ...),
    ("date", ["2024-01-01", "2024-01-02", "2024-02-01", "2024-03-01"], "2024-02-01"),
    (
        "timestamp",
        ["2024-01-01", "2024-01-02 10:00:00.5", "2024-01-02 10:00:00.500001", "2024-02-01"],
        "2024-01-02T10:00:00.500001+00:00",
    ),
    (
        "timestamptz",
        ["-infinity", "2024-01-01 02:00+02", "2024-01-01 00:00:00.5+00", "2024-01-01 01:00+00"],
        "2024-01-01T00:00:00.500000+00:00",
    ),
    ('text COLLATE "und-x-icu"', ["A", "B", "a", "ä"], "a"),
    ("mood", ["happy", "ok", "sad", "worse"], "sad"),
    ("uuid", [f"{digit}0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11" for digit in "18af"], ...),
    ("real", ["0.1", "0.5", "0.7", "0.9"], Decimal("0.7")),
    ("bytea", [r"\x09", r"\x61", r"\xa1", r"\xa2"], "a1"),
    ("char(5)", ["a", "ab", "b", "bc"], "b    "),
    ("timetz", ["09:00+02", "09:30+00", "10:00+02", "11:00+00"], "10:00:00+02:00"),
]
"""A type, four sorted values (the fourth is new in the second run), the first bookmark."""


def test_next_run_reads_from_the_bookmark(source: Source) -> None:
    source.run("CREATE TYPE mood AS ENUM ('sad', 'worse', 'ok', 'happy')")
    for number, (kind, values, _) in enumerate(INCREMENTS):
        source.run(f"CREATE TABLE t{number} (id int PRIMARY KEY, k {kind})")
        insert(source, number, (3, values[2]), (1, values[0]), (2, values[1]), (0, None))
    streams: dict[str, str | None] = {f"public-t{number}": "k" for number in range(len(INCREMENTS))}
    first = source.sync(streams)
    assert first.code == 0, first.log
    for number, (kind, values, bookmark) in enumerate(INCREMENTS):
        records = first.records(f"public-t{number}")
        assert [record["id"] for record in records] == [0, 1, 2, 3], kind
        expected = records[-1]["k"] if bookmark is ... else bookmark
        entry = first.state["bookmarks"][f"public-t{number}"]
        assert entry["replication_key_value"] == expected, kind
        insert(source, number, (4, values[3]), (5, values[1]), (6, values[2]))
    second = source.sync(streams, state=first.state)
    assert second.code == 0, second.log
    for number, (kind, _, _) in enumerate(INCREMENTS):
        ids = [record["id"] for record in second.records(f"public-t{number}")]
        assert set(ids) == {3, 6, 4}, kind
        assert ids[-1] == 4, kind


def insert(source: Source, table: int, *rows: tuple[int, str | None]) -> None:
    with source.database.connect() as connection:
        connection.cursor().executemany(f"INSERT INTO t{table} VALUES (%s, %s)", rows)  # noqa: S608


def test_sample_passes_the_standard_tap_tests(source: Source) -> None:
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY, name text, price float8, at timestamptz, tags text[])",
        "INSERT INTO t SELECT i, 'n' || i, i / 8.0, now(), '{a,b}' FROM generate_series(1, 300) i",
        "CREATE VIEW v AS SELECT id, at::date AS day, id % 2 = 0 AS even FROM t",
    )
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(SAMPLE / "tests")],
        cwd=source.folder,
        env={**environment(), "TAP_POSTGRES_SQLALCHEMY_URL": source.database.url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout
