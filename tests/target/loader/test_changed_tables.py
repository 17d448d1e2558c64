"""Tables that other tools created, or changed between two runs or during one."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from target_spark.errors import TableError
from target_spark.storage.uris import to_spark_uri
from target_spark.tables.table import Table
from target_spark.writers.iceberg.catalog import resolve_table
from tests.target.warehouse import Warehouse, feed, record, schema, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

INT: dict[str, Any] = {"type": ["null", "integer"]}
TEXT: dict[str, Any] = {"type": ["null", "string"]}
TIME: dict[str, Any] = {"type": ["null", "string"], "format": "date-time"}
ID = {"id": {"type": "integer"}}
WITH_SQL = ["delta", "iceberg"]


def clock(hours: int) -> datetime:
    """Return a naive datetime, in hours since the start of 2024."""
    return datetime.fromisoformat("2024-01-01") + timedelta(hours=hours)


class ChangedWarehouse(Warehouse):
    """A warehouse whose tables tests change without the loader."""

    def ref(self, table: str) -> str:
        address = f"{self.folder}/{table}"
        if self.format == "iceberg":
            return resolve_table(self.spark, Table(address, table)).ref
        return f"{self.format}.`{to_spark_uri(address)}`"

    def sql(self, table: str, statement: str) -> Any:
        """Run a statement in which ``{t}`` is the table."""
        return self.spark.sql(statement.replace("{t}", self.ref(table)))

    def types(self, table: str) -> dict[str, str]:
        fields = self.spark.table(self.ref(table)).schema.fields
        return {field.name: field.dataType.simpleString() for field in fields}

    def comments(self, table: str) -> dict[str, str]:
        fields = self.spark.table(self.ref(table)).schema.fields
        return {f.name: f.metadata["comment"] for f in fields if f.metadata.get("comment")}

    def notes(self, stream: str) -> list[str]:
        notes: list[str] = self.counts(stream)["notes"]
        return notes


@pytest.fixture
def delta(spark_session: Session, spark: SparkSession, tmp_path: Path) -> ChangedWarehouse:
    return ChangedWarehouse(spark_session, spark, tmp_path / "tables")


@pytest.fixture(params=WITH_SQL)
def tables(
    request: pytest.FixtureRequest, spark_session: Session, spark: SparkSession, tmp_path: Path
) -> ChangedWarehouse:
    return ChangedWarehouse(spark_session, spark, tmp_path / "tables", request.param)


@pytest.fixture(params=[*WITH_SQL, "parquet"])
def all_formats(
    request: pytest.FixtureRequest, spark_session: Session, spark: SparkSession, tmp_path: Path
) -> ChangedWarehouse:
    return ChangedWarehouse(spark_session, spark, tmp_path / "tables", request.param)


# Foreign columns


def test_upsert_keeps_values_of_foreign_columns(tables: ChangedWarehouse) -> None:
    schema_message = schema("t", {**ID, "n": INT}, "id")
    tables.load(schema_message, record("t", id=1, n=1), record("t", id=2, n=1))
    tables.sql("t", "ALTER TABLE {t} ADD COLUMNS (theirs string)")
    tables.sql(
        "t",
        "MERGE INTO {t} t USING (SELECT 1L AS i) s ON t.id = s.i"
        " WHEN MATCHED THEN UPDATE SET t.theirs = 'kept'",
    )
    tables.load(schema_message, record("t", id=1, n=2), record("t", id=3, n=3))
    assert tables.rows("t", "id", "n", "theirs") == [(1, 2, "kept"), (2, 1, None), (3, 3, None)]
    assert not tables.notes("t")


def test_upsert_fills_default_and_generated_columns(delta: ChangedWarehouse) -> None:
    delta.sql(
        "t",
        "CREATE TABLE {t} (id bigint, at timestamp, day date GENERATED ALWAYS AS"
        " (CAST(at AS DATE)), k bigint GENERATED ALWAYS AS IDENTITY, c string DEFAULT 'x')"
        " USING delta PARTITIONED BY (day)"
        " TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
    )
    schema_message = schema("t", {**ID, "at": TIME}, "id")
    delta.load(schema_message, record("t", id=1, at="2024-01-01T10:00:00Z"))
    delta.load(
        schema_message, record("t", id=1, at="2024-01-02T10:00:00Z"), record("t", id=2, at=None)
    )
    assert delta.rows("t", "id", "day", "c") == [(1, date(2024, 1, 2), "x"), (2, None, "x")]
    assert delta.read("t").where("k IS NOT NULL").count() == 2


def test_upsert_makes_a_foreign_not_null_column_nullable_beside_defaults(
    delta: ChangedWarehouse,
) -> None:
    """Delta then reports that the column is not specified, instead of a null in it."""
    delta.sql(
        "t",
        "CREATE TABLE {t} (id bigint, a string NOT NULL DEFAULT 'd', z int NOT NULL) USING delta"
        " TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
    )
    schema_message = schema("t", ID, "id")
    for id_ in (1, 2):
        delta.load(schema_message, record("t", id=id_), state(id_))
        assert delta.states == [id_]
    assert delta.rows("t", "id", "a", "z") == [(1, "d", None), (2, "d", None)]


def test_append_and_overwrite_fill_default_columns(tables: ChangedWarehouse) -> None:
    properties = (
        " TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
        if tables.format == "delta"
        else ""
    )
    default = "DEFAULT 'x'" if tables.format == "delta" else ""
    tables.sql(
        "t", f"CREATE TABLE {{t}} (c string {default}, id bigint) USING {tables.format}{properties}"
    )
    expected = "x" if tables.format == "delta" else None
    tables.load(schema("t", ID), record("t", id=1))
    assert tables.rows("t", "c", "id") == [(expected, 1)]
    tables.load(schema("t", ID), record("t", id=2), state(1), write_mode="overwrite")
    assert tables.rows("t", "c", "id") == [(expected, 2)]


def test_dropped_column_is_added_again_and_renamed_one_kept(delta: ChangedWarehouse) -> None:
    schema_message = schema("t", {**ID, "a": INT, "b": TEXT})
    delta.load(schema_message, record("t", id=1, a=1, b="x"))
    delta.sql("t", "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    delta.sql("t", "ALTER TABLE {t} DROP COLUMN a")
    delta.sql("t", "ALTER TABLE {t} RENAME COLUMN b TO theirs")
    delta.load(schema_message, record("t", id=2, a=2, b="y"))
    assert delta.rows("t", "id", "a", "b", "theirs") == [(1, None, None, "x"), (2, 2, "y", None)]
    assert delta.notes("t") == ["new column a (bigint)", "new column b (string)"]


@pytest.mark.parametrize("keyed", [True, False])
def test_column_dropped_during_the_run_is_added_again(
    tables: ChangedWarehouse, keyed: bool
) -> None:
    schema_message = schema("t", {**ID, "a": INT}, *(["id"] if keyed else []))
    loader, spool = tables.open(flush_rows=1)
    feed(loader, schema_message, record("t", id=1, a=1))
    loader._pipeline.wait()
    loader.poll()
    if tables.format == "delta":
        tables.sql("t", "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    tables.sql("t", "ALTER TABLE {t} DROP COLUMN a")
    tables.sql("t", "ALTER TABLE {t} ADD COLUMNS (theirs string)")
    feed(loader, record("t", id=2, a=2), state(1))
    loader.finish(whole=True)
    loader.close()
    spool.close()
    assert tables.rows("t", "id", "a", "theirs") == [(1, None, None), (2, 2, None)]
    assert tables.notes("t") == ["new column a (bigint)"]
    assert tables.states == [1]


def test_externally_widened_column_accepts_larger_values(tables: ChangedWarehouse) -> None:
    schema_message = schema("t", {**ID, "a": {**TEXT, "format": "singer.decimal", "precision": 5}})
    tables.load(schema_message, record("t", id=1, a="1"))
    if tables.format == "delta":
        tables.sql("t", "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    tables.sql("t", "ALTER TABLE {t} ALTER COLUMN a TYPE decimal(9,0)")
    tables.load(schema_message, record("t", id=2, a="12345"), record("t", id=3, a="123456789"))
    assert sorted(int(row[0]) for row in tables.rows("t", "a")) == [1, 12345, 123456789]
    assert tables.types("t")["a"] == "decimal(9,0)"


# Foreign constraints


@pytest.mark.parametrize("mode", ["append", "upsert", "overwrite"])
def test_not_null_column_becomes_nullable_at_the_first_null(
    tables: ChangedWarehouse, mode: str
) -> None:
    tables.sql(
        "t",
        "CREATE TABLE {t} (id bigint NOT NULL, a bigint NOT NULL, s struct<x: bigint NOT NULL>,"
        f" theirs string NOT NULL) USING {tables.format}",
    )
    tables.sql("t", "INSERT INTO {t} VALUES (9, 9, named_struct('x', 9L), 'x')")
    properties = {**ID, "a": INT, "s": {"type": ["null", "object"], "properties": {"x": INT}}}
    messages = [
        schema("t", properties, "id"),
        record("t", id=1, a=None, s={"x": None}),
        record("t", id=9, a=8, s={"x": 8}),
    ]
    states = tables.load(*messages, state(1), write_mode=mode)
    assert states == [1]
    nine = [(9, 9, "x")] if mode == "append" else []
    other = "x" if mode == "upsert" else None
    assert tables.rows("t", "id", "a", "theirs") == sorted(
        [(1, None, None), (9, 8, other), *nine], key=repr
    )
    nullable = {f.name: f.nullable for f in tables.spark.table(tables.ref("t")).schema.fields}
    assert nullable["a"]
    assert nullable["theirs"]
    assert nullable["id"] is False or tables.format == "iceberg"


def test_not_null_column_stays_without_nulls(tables: ChangedWarehouse) -> None:
    tables.sql("t", f"CREATE TABLE {{t}} (id bigint, a bigint NOT NULL) USING {tables.format}")
    tables.load(schema("t", {**ID, "a": INT}), record("t", id=1, a=1))
    assert tables.rows("t") == [(1, 1)]
    nullable = {f.name: f.nullable for f in tables.spark.table(tables.ref("t")).schema.fields}
    assert nullable["a"] is False or tables.format == "iceberg"


@pytest.mark.parametrize("mode", ["append", "upsert", "overwrite"])
def test_violated_constraint_is_named_without_values(delta: ChangedWarehouse, mode: str) -> None:
    schema_message = schema("t", {**ID, "email": TEXT}, "id")
    delta.load(schema_message, record("t", id=1, email="a@b"))
    delta.sql("t", "ALTER TABLE {t} ADD CONSTRAINT has_at CHECK (email LIKE '%@%')")
    with pytest.raises(TableError, match=r"constraint has_at \(email LIKE '%@%'\)") as raised:
        delta.load(schema_message, record("t", id=2, email="secret"), state(1), write_mode=mode)
    assert "secret" not in str(raised.value)
    assert "DROP CONSTRAINT" in str(raised.value)
    assert delta.states == []
    assert delta.rows("t") == [(1, "a@b")]
    delta.load(schema_message, record("t", id=2, email="c@d"), state(1), write_mode=mode)
    assert (2, "c@d") in delta.rows("t")


def test_changes_of_an_append_only_table_are_an_error(delta: ChangedWarehouse) -> None:
    schema_message = schema("t", {**ID, "a": TEXT}, "id")
    delta.load(schema_message, record("t", id=1, a="x"))
    delta.sql("t", "ALTER TABLE {t} SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    with pytest.raises(TableError, match=r"^Table t \(.*property delta\.appendOnly.*write_mode to"):
        delta.load(schema_message, record("t", id=1, a="y"), state(1))
    assert delta.load(schema_message, record("t", id=2, a="y"), state(1), write_mode="append") == [
        1
    ]


@pytest.mark.parametrize("kind", ["ALWAYS", "BY DEFAULT"])
def test_identity_column_as_key_is_an_error(delta: ChangedWarehouse, kind: str) -> None:
    delta.sql(
        "t", f"CREATE TABLE {{t}} (id bigint GENERATED {kind} AS IDENTITY, a string) USING delta"
    )
    delta.sql("t", "INSERT INTO {t} (a) VALUES ('theirs')")
    with pytest.raises(
        TableError, match=r"^Table t \(.*has the identity column id: .*cannot be a key"
    ):
        delta.load(schema("t", {**ID, "a": TEXT}, "id"), record("t", id=1, a="x"), state(1))
    assert delta.states == []
    assert delta.rows("t", "a") == [("theirs",)]


def test_first_versions_in_a_table_that_accepts_any_schema_are_an_error(
    spark_session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    iceberg = ChangedWarehouse(spark_session, spark, tmp_path / "tables", "iceberg")
    iceberg.sql("t", "CREATE TABLE {t} (id bigint) USING iceberg")
    iceberg.sql("t", "INSERT INTO {t} VALUES (1)")
    iceberg.sql("t", "ALTER TABLE {t} SET TBLPROPERTIES ('write.spark.accept-any-schema' = 'true')")
    with pytest.raises(TableError, match=r"accept-any-schema = 'true'.*Remove the property"):
        iceberg.load(schema("t", ID, "id"), record("t", id=2), state(1), write_mode="scd2")


def test_null_in_an_identifier_field_of_iceberg_is_an_error(
    spark_session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    iceberg = ChangedWarehouse(spark_session, spark, tmp_path / "tables", "iceberg")
    iceberg.sql("t", "CREATE TABLE {t} (id bigint, a string NOT NULL) USING iceberg")
    iceberg.sql("t", "ALTER TABLE {t} SET IDENTIFIER FIELDS a")
    schema_message = schema("t", {**ID, "a": TEXT}, "id")
    with pytest.raises(TableError, match=r"^Table t \(.*the identifier field a cannot be nullable"):
        iceberg.load(schema_message, record("t", id=1), state(1))
    assert iceberg.load(schema_message, record("t", id=1, a="x"), state(1)) == [1]


def test_varchar_and_char_columns_become_string(delta: ChangedWarehouse) -> None:
    delta.sql(
        "t", "CREATE TABLE {t} (id bigint, a varchar(3), b char(3), n varchar(2)) USING delta"
    )
    schema_message = schema("t", {**ID, "a": TEXT, "b": TEXT, "n": INT})
    delta.load(schema_message, record("t", id=1, a="longer", b="also longer", n=12345))
    assert delta.rows("t", "id", "a", "b", "n") == [(1, "longer", "also longer", "12345")]
    assert delta.notes("t") == [f"column {name} is now string" for name in "abn"]


def test_too_long_text_in_a_list_of_varchar_is_an_error(delta: ChangedWarehouse) -> None:
    delta.sql("t", "CREATE TABLE {t} (id bigint, a array<varchar(3)>) USING delta")
    schema_message = schema("t", {**ID, "a": {"type": "array", "items": TEXT}})
    delta.load(schema_message, record("t", id=1, a=["abc"]))
    with pytest.raises(TableError, match="text of a limited length") as raised:
        delta.load(schema_message, record("t", id=1, a=["secret"]))
    assert "secret" not in str(raised.value)


# Foreign types


def test_foreign_types_are_used_if_possible_or_get_another_column(tables: ChangedWarehouse) -> None:
    small = "t tinyint, m smallint," if tables.format == "delta" else "t int, m int,"
    tables.sql(
        "t",
        f"CREATE TABLE {{t}} (id int, at timestamp_ntz, f float, {small} g map<string, string>,"
        f" l array<timestamp_ntz>) USING {tables.format}",
    )
    number = {"type": ["null", "number"]}
    properties = {
        **ID,
        "at": TIME,
        "f": number,
        "t": INT,
        "m": number,
        "g": {"type": ["null", "object"]},
        "l": {"type": "array", "items": TIME},
    }
    values = {"f": 1.5, "t": 2**40, "m": 2.5, "g": {"a": "b"}, "l": ["2024-01-01t00:00:00+01:00"]}
    tables.load(
        schema("t", properties),
        record("t", id=2**40, at="2024-01-01T12:00:00+02:00", **values),
        record("t", id=2, at="2024-01-01 12:00:00.5"),
        record("t", id=3, at="12:00"),
    )
    assert tables.counts("t")["quarantined"] == 1
    assert tables.rows("t", "id", "at") == [
        (2**40, clock(10)),
        (2, clock(12) + timedelta(seconds=0.5)),
    ]
    first = tables.read("t").where("id > 2").collect()[0]
    assert (first.f, first.t, first.g) == (1.5, 2**40, None)
    assert first.g__string == '{"a": "b"}'
    assert first.l == [clock(-1)]
    # Iceberg does not widen an integer to a double.
    assert (first.m if tables.format == "delta" else first.m__double) == 2.5
    assert "new column g__string (string), because column g cannot be widened" in tables.notes("t")
    before = tables.types("t")
    tables.load(schema("t", properties), record("t", id=4, **values))
    assert tables.types("t") == before
    assert not tables.notes("t")


# Foreign layouts


def test_foreign_partitions_deletion_vectors_and_column_mapping_are_supported(
    delta: ChangedWarehouse,
) -> None:
    delta.sql(
        "t",
        "CREATE TABLE {t} (id bigint, a string) USING delta PARTITIONED BY (a) TBLPROPERTIES"
        " ('delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name')",
    )
    schema_message = schema("t", {**ID, "a": TEXT, "a b": INT}, "id")
    delta.load(
        schema_message, record("t", **{"id": 1, "a": "x", "a b": 1}), record("t", id=2, a="x")
    )
    delta.sql("t", "DELETE FROM {t} WHERE id = 2")
    delta.load(schema_message, record("t", **{"id": 1, "a": "y", "a b": 2}))
    assert delta.rows("t", "id", "a", "a_b") == [(1, "y", 2)]


def test_text_that_a_foreign_partition_stores_as_null_is_quarantined(
    delta: ChangedWarehouse,
) -> None:
    delta.sql("t", "CREATE TABLE {t} (id bigint, a string) USING delta PARTITIONED BY (a)")
    schema_message = schema("t", {**ID, "a": TEXT}, "id", "a")
    texts = ["", "x", "__HIVE_DEFAULT_PARTITION__"]
    for _ in range(2):  # as null, the key would not match in the second load
        delta.load(
            schema_message, *(record("t", id=number, a=text) for number, text in enumerate(texts))
        )
    assert delta.rows("t", "id", "a") == [(1, "x")]
    reasons = [
        "a: an empty string, which a partition stores as null",
        "a: the text __HIVE_DEFAULT_PARTITION__, which a partition stores as null",
    ]
    assert delta.rows("t__quarantine", "reasons") == [([text],) for text in reasons for _ in "12"]


# Comments and names


def test_column_comments_follow_the_descriptions(tables: ChangedWarehouse) -> None:
    def described(**texts: str) -> dict[str, Any]:
        properties = {name: {**INT, "description": text} for name, text in texts.items()}
        return schema("t", {**ID, **properties})

    tables.load(described(a="it's \\ new"), record("t", id=1, a=1))
    assert tables.comments("t") == {"a": "it's \\ new"}
    tables.load(described(a="changed", b="added"), record("t", id=2, a=1, b=1))
    assert tables.comments("t") == {"a": "changed", "b": "added"}
    tables.sql("t", "ALTER TABLE {t} ALTER COLUMN id COMMENT 'by somebody'")
    tables.load(described(a="changed"), record("t", id=3, a=1))
    assert tables.comments("t") == {"a": "changed", "b": "added", "id": "by somebody"}
    marker = tables.marker("t")
    assert marker is not None
    assert marker.run == "run3"


CASES: list[tuple[dict[str, Any], ...]] = [
    ({"a": 1, "A": 2}, {"a": 3}, {"A": 4, "a": 5}),
    ({"a b": 1, "a_b": 2}, {"a b": 3}, {"a_b": 4}),
    ({"token": 1, "Token": 2}, {"token": 3}, {"Token": 4}),
]


@pytest.mark.parametrize("runs", CASES)
def test_properties_with_colliding_names_keep_their_columns(
    all_formats: ChangedWarehouse, runs: tuple[dict[str, Any], ...]
) -> None:
    first_columns = {}
    for number, values in enumerate(runs):
        all_formats.load(
            schema("t", {**ID, **dict.fromkeys(values, INT)}), record("t", id=number, **values)
        )
        row = all_formats.read("t").where(f"id = {number}").collect()[0].asDict()
        column_of = {
            value: name for name, value in row.items() if name != "id" and value is not None
        }
        columns = {source: column_of[value] for source, value in values.items()}
        first_columns = {**columns, **first_columns}
        assert columns == {source: first_columns[source] for source in columns}
    assert len(set(first_columns.values())) == len(first_columns)


def test_struct_fields_with_colliding_names_keep_their_properties(
    all_formats: ChangedWarehouse,
) -> None:
    def wanted(*names: str) -> dict[str, Any]:
        inner = {
            "type": "array",
            "items": {"type": "object", "properties": dict.fromkeys(names, INT)},
        }
        return schema("t", {**ID, "s": inner})

    all_formats.load(wanted("x", "X"), record("t", id=1, s=[{"x": 1, "X": 2}]))
    all_formats.load(wanted("x"), record("t", id=2, s=[{"x": 3}]))
    first, second = (row.s[0].asDict() for row in all_formats.read("t").orderBy("id").collect())
    assert first == {"x_2": 1, "X": 2}
    assert second == {"x_2": 3, "X": None}


def test_upsert_empties_the_column_of_the_former_type(tables: ChangedWarehouse) -> None:
    def run(kind: dict[str, Any], value: Any) -> None:
        tables.load(schema("t", {**ID, "a": kind}, "id"), record("t", id=1, a=value))

    run(INT, 1)
    run(TEXT, "x")
    assert tables.rows("t", "id", "a", "a__string") == [(1, None, "x")]
    run(INT, 2)
    assert tables.rows("t", "id", "a", "a__string") == [(1, 2, None)]
