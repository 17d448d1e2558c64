"""Tables, columns, types and names that a SQL connector creates and changes."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import mssql, mysql, oracle, postgresql, sqlite

from tap_core.exceptions import ConformedNameClashException
from tap_core.sql.connector import SQLConnector
from tap_core.sql.fully_qualified_name import FullyQualifiedName
from tap_core.sql.identifiers import (
    check_name_clashes,
    conform_name,
    replace_leading_digit,
    snakecase,
)
from tap_core.sql.type_widening import adapt_type, is_wider, loses_precision
from tests.sql_targets.small_target import read_rows, read_types

KNOWN = {"properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}


@pytest.fixture
def connector(url):
    connector_under_test = SQLConnector(config={"sqlalchemy_url": url})
    yield connector_under_test
    connector_under_test._engine.dispose()


@pytest.fixture
def table(connector):
    connector.create_empty_table("a", KNOWN, primary_keys=["id"])
    return "a"


def record_column_reads(connector: SQLConnector, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that gets an entry each time the columns of a table are read."""
    reads: list[object] = []
    plain = type(connector).get_table_columns

    def counted(self, *args, **kwargs):
        reads.append(args)
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(type(connector), "get_table_columns", counted)
    return reads


def test_created_table_has_the_schemas_columns_and_primary_key(connector, url):
    connector.create_empty_table("a", KNOWN, primary_keys=["name", "gone", "id"])
    assert list(read_types(url, "a")) == ["id", "name"]
    key = sa.inspect(connector._engine).get_pk_constraint("a")
    assert key["constrained_columns"] == ["name", "id"]


def test_missing_integer_key_is_not_generated(postgres_url):
    """PostgreSQL only: SQLite generates integer keys, as they are the row id."""
    connector = SQLConnector(config={"sqlalchemy_url": postgres_url})
    connector.create_empty_table("a", KNOWN, primary_keys=["id"])
    with pytest.raises(sa.exc.IntegrityError), connector._transaction() as connection:
        connection.exec_driver_sql("INSERT INTO a (name) VALUES ('x')")
    connector._engine.dispose()


def test_temporary_tables_are_not_supported_by_default(connector):
    with pytest.raises(NotImplementedError, match="Temporary tables are not supported"):
        connector.create_empty_table("a", KNOWN, as_temp_table=True)


def test_table_of_a_schema_without_properties_is_rejected(connector):
    with pytest.raises(RuntimeError, match="Schema for 'a' does not define properties"):
        connector.create_empty_table("a", {"type": "object"})


def test_columns_of_a_matching_table_are_read_once(connector, table, monkeypatch):
    reads = record_column_reads(connector, monkeypatch)
    connector.prepare_table("a", KNOWN, ["id"])
    assert len(reads) == 1


def test_table_is_kept_if_no_load_method_is_set(connector, table, url):
    with connector._transaction() as connection:
        connection.exec_driver_sql("INSERT INTO a VALUES (1, 'x')")
    connector.prepare_table("a", KNOWN, ["id"])
    assert read_rows(url, "a") == [(1, "x")]


class Preparing(SQLConnector):
    """Connector that records the columns it prepares."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.prepared = []

    def prepare_column(self, full_table_name, column_name, sql_type):
        self.prepared.append((column_name, str(sql_type)))
        super().prepare_column(full_table_name, column_name, sql_type)


def test_overridden_prepare_column_is_called_for_each_column(sqlite_url):
    connector = Preparing(config={"sqlalchemy_url": sqlite_url})
    connector.create_empty_table("a", KNOWN)
    connector.prepare_table("a", {"properties": {**KNOWN["properties"], "new": {}}}, [])
    assert connector.prepared == [("id", "INTEGER"), ("name", "VARCHAR"), ("new", "VARCHAR")]
    connector._engine.dispose()


def test_adding_a_column_is_rejected_if_allow_column_add_is_false(connector, table):
    connector.allow_column_add = False
    with pytest.raises(NotImplementedError, match="Adding columns is not supported"):
        connector.prepare_column("a", "new", sa.Integer())


def test_columns_with_reserved_names_can_be_renamed(connector, table, url):
    connector.rename_column("a", "name", "order")
    connector.rename_column("a", "order", "the group")
    assert list(read_types(url, "a")) == ["id", "the group"]
    connector.allow_column_rename = False
    with pytest.raises(NotImplementedError, match="Renaming columns is not supported"):
        connector.rename_column("a", "id", "x")


def test_overridden_rename_ddl_gets_unquoted_names(sqlite_url):
    class Renaming(SQLConnector):
        @staticmethod
        def get_column_rename_ddl(table_name, column_name, new_column_name):
            statement = (
                f'ALTER TABLE {table_name} RENAME COLUMN "{column_name}" TO "{new_column_name}"'
            )
            return sa.DDL(statement)

    connector = Renaming(config={"sqlalchemy_url": sqlite_url})
    connector.create_empty_table("a", KNOWN)
    connector.rename_column("a", "name", "the order")
    assert list(read_types(sqlite_url, "a")) == ["id", "the order"]
    connector._engine.dispose()


def test_column_named_like_an_sql_keyword_is_added(connector, table, url):
    connector.prepare_column("a", "select", sa.Integer())
    connector.prepare_column("a", "at", sa.DATETIME())
    assert list(read_types(url, "a")) == ["id", "name", "select", "at"]


def test_type_of_a_missing_column_raises_key_error(connector, table):
    with pytest.raises(KeyError, match="Column `gone` does not exist in table `a`"):
        connector._get_column_type("a", "gone")


def test_prepare_schema_creates_the_schema_once(postgres_url):
    connector = SQLConnector(config={"sqlalchemy_url": postgres_url})
    assert not connector.schema_exists("the shop")
    connector.prepare_schema("the shop")
    connector.prepare_schema("the shop")
    assert connector.schema_exists("the shop")
    name = FullyQualifiedName(table="a b", schema="the shop", dialect=connector._dialect)
    connector.prepare_table(name, KNOWN, ["id"])
    connector.prepare_table(name, {"properties": {**KNOWN["properties"], "new": {}}}, ["id"])
    assert list(read_types(postgres_url, "a b", "the shop")) == ["id", "name", "new"]
    connector._engine.dispose()


def test_column_type_change_keeps_the_collation(postgres_url):
    connector = SQLConnector(config={"sqlalchemy_url": postgres_url})
    connector.allow_column_alter = True
    with connector._transaction() as connection:
        connection.exec_driver_sql('CREATE TABLE a (name varchar(3) COLLATE "C")')
    connector.prepare_column("a", "name", sa.VARCHAR(9))
    query = (
        "SELECT character_maximum_length, collation_name FROM information_schema.columns"
        " WHERE table_name = 'a'"
    )
    [(length, collation)] = read_rows(postgres_url, query)
    assert length == 9
    assert collation in ("C", None)
    connector._engine.dispose()


def test_failed_statement_rolls_back_the_transaction(connector, table, url):
    def insert() -> None:
        with connector._transaction() as connection:
            connection.exec_driver_sql("INSERT INTO a VALUES (1, 'x')")
            connection.exec_driver_sql("INSERT INTO gone VALUES (1)")

    with pytest.raises(sa.exc.DBAPIError):
        insert()
    assert read_rows(url, "a") == []


def test_large_versions_are_compared_as_numbers(connector, url):
    connector.create_empty_table("a", {"properties": {"v": {"type": "number"}}})
    with connector._transaction() as connection:
        connection.exec_driver_sql("INSERT INTO a VALUES (NULL), (1700000000000), (2)")
    connector.delete_old_versions(
        full_table_name="a", version_column_name="v", current_version=1_700_000_000_000
    )
    assert [row[0] for row in read_rows(url, "a")] == [None, 1_700_000_000_000]


def test_overridden_alter_ddl_is_used(postgres_url):
    class Altering(SQLConnector):
        allow_column_alter = True

        @staticmethod
        def get_column_alter_ddl(table_name, column_name, column_type):
            statement = f'ALTER TABLE {table_name} ALTER "{column_name}" TYPE {column_type}'
            return sa.DDL(f"{statement} USING 'was ' || \"{column_name}\"")

    connector = Altering(config={"sqlalchemy_url": postgres_url})
    with connector._transaction() as connection:
        connection.exec_driver_sql('CREATE TABLE a ("order" int)')
        connection.exec_driver_sql("INSERT INTO a VALUES (1)")
    connector.prepare_column("a", "order", sa.String())
    assert read_rows(postgres_url, "a") == [("was 1",)]
    connector._engine.dispose()


def test_default_alter_ddl_is_used_for_an_unknown_dialect(sqlite_url):
    connector = SQLConnector(config={"sqlalchemy_url": sqlite_url})
    connector.allow_column_alter = True
    connector.create_empty_table("a", {"properties": {"the order": {"type": "integer"}}})
    message = r'ALTER TABLE a ALTER COLUMN "the order" \(VARCHAR\)'
    with pytest.raises(sa.exc.OperationalError, match=message):  # SQLite has no such statement
        connector.prepare_column("a", "the order", sa.String())
    connector._engine.dispose()


def test_column_without_a_type_is_compared_as_null_type(sqlite_url):
    connector = SQLConnector(config={"sqlalchemy_url": sqlite_url})
    with connector._transaction() as connection:
        connection.exec_driver_sql("CREATE TABLE a (x)")
    with pytest.raises(NotImplementedError, match="from 'NULL' to 'VARCHAR'"):
        connector.prepare_column("a", "x", sa.String())
    connector._engine.dispose()


def test_collation_is_changed_only_for_types_that_have_one():
    text, integer = sa.String(collation="x"), sa.Integer()
    assert SQLConnector.remove_collation(text) == "x"
    assert text.collation is None
    assert SQLConnector.remove_collation(integer) is None
    for sql_type in (text, integer):
        SQLConnector.update_collation(sql_type, "y")
    assert (text.collation, hasattr(integer, "collation")) == ("y", False)


# Merging of types


class Odd(sa.types.UserDefinedType[object]):
    """A database-specific type without a `python_type`."""

    cache_ok = True

    @property
    def python_type(self):
        raise NotImplementedError

    def get_col_spec(self):
        return "ODD"


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ([sa.Integer()], "INTEGER"),
        ([sa.String(5), sa.Integer()], "VARCHAR(5)"),
        ([sa.Integer(), sa.String(5)], "INTEGER"),
        ([sa.Integer(), sa.String()], "VARCHAR"),
        ([sa.Date(), sa.DateTime(), sa.Float()], "DATETIME"),
        ([sa.DateTime(), sa.Boolean()], "DATETIME"),
        ([postgresql.INET(), sa.Integer()], "INET"),
        ([Odd(), sa.Integer()], "ODD"),
    ],
)
def test_merged_type_of_several_types(types, expected):
    connector = SQLConnector(config={"sqlalchemy_url": "sqlite://"})
    assert str(connector.merge_sql_types(types)) == expected


def test_unmergeable_types_raise_value_error():
    class Sorting(SQLConnector):
        def _sort_types(self, sql_types):
            return [sa.Date(), sa.Float()]

    connector = Sorting(config={"sqlalchemy_url": "sqlite://"})
    with pytest.raises(ValueError, match="Unable to merge sql types: DATE, FLOAT"):
        connector.merge_sql_types([sa.Integer(), sa.String()])


def test_merging_no_types_raises_value_error():
    connector = SQLConnector(config={"sqlalchemy_url": "sqlite://"})
    with pytest.raises(ValueError, match="Expected at least one member"):
        connector.merge_sql_types([])


class Shout(sa.TypeDecorator[str]):
    impl = sa.String
    cache_ok = True


@pytest.mark.parametrize(
    ("current", "new", "false", "widens"),
    [
        (sa.Integer(), sa.Numeric(), True, False),
        (sa.Integer(), sa.Float(), True, False),
        (sa.Date(), sa.DateTime(), True, False),
        (sa.Numeric(), sa.Integer(), False, False),
        (sa.DateTime(), sa.Date(), False, False),
        (sa.SmallInteger(), sa.Integer(), False, True),
        (sa.Integer(), sa.BigInteger(), False, True),
        (sa.BigInteger(), sa.Integer(), False, False),
        (sa.Boolean(), sa.String(9), False, True),
        (sa.String(3), sa.String(9), False, True),
        (sa.String(3), Shout(), False, True),
        (sa.String(), sa.String(9), False, False),
        (Shout(9), sa.String(9), False, False),
    ],
)
def test_wider_and_lossy_type_changes_are_recognized(current, new, false, widens):
    assert (loses_precision(current, new), is_wider(current, new)) == (false, widens)


# Names


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (postgresql, "DECIMAL"),
        (sqlite, "DECIMAL"),
        (mysql, "DOUBLE"),
        (mssql, "DOUBLE PRECISION"),
        (oracle, "DOUBLE PRECISION"),
    ],
)
def test_columns_of_numbers_keep_fractions(dialect, expected):
    sql_dialect = dialect.dialect()
    numbers = SQLConnector().to_sql_type({"type": ["number", "null"]})
    assert adapt_type(numbers, sql_dialect).compile(dialect=sql_dialect) == expected
    exact = SQLConnector().to_sql_type(
        {"type": "string", "format": "x-singer.decimal", "precision": 20, "scale": 5}
    )
    assert adapt_type(exact, sql_dialect) is exact


@given(st.text(min_size=1))
def test_conforming_a_name_is_idempotent(name):
    once = conform_name(name)
    assert once
    assert once == once.lower()
    assert not once[0].isdecimal()
    assert conform_name(once) in (once, once.strip())


@pytest.mark.parametrize(
    ("name", "expected"),
    [("日本", "u65e5_u672c"), ("", "_"), ("!", "u21"), ("9é", "j"), ("My Name", "my_name")],
)
def test_name_without_ascii_letters_is_spelled_as_code_points(name, expected):
    assert conform_name(name) == expected


def test_replace_leading_digit_changes_only_leading_ascii_digits():
    assert [replace_leading_digit(name) for name in ("", "a1", "1a", "²")] == ["", "a1", "ba", "²"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("", ""), ("userName", "user_name"), ("A-b. C", "a_b_c"), ("ends_", "ends")],
)
def test_snakecase_of_a_name(name, expected):
    assert snakecase(name) == expected


def test_every_name_clash_is_listed_in_the_error():
    names = {"a": "x", "b": "x", "c": "y", "d": "z", "e": "z"}
    message = r"\[\('x', \['a', 'b'\]\), \('z', \['d', 'e'\]\)\]"
    with pytest.raises(ConformedNameClashException, match=message):
        check_name_clashes(names)


# Threads


def test_tables_can_be_prepared_by_several_threads(postgres_url):
    connector = SQLConnector(config={"sqlalchemy_url": postgres_url})
    names = [f"t{number}" for number in range(8)]

    def prepare(name: str) -> None:
        connector.prepare_table(name, KNOWN, ["id"])

    workers = [threading.Thread(target=prepare, args=[name]) for name in names]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(sa.inspect(connector._engine).get_table_names()) == names
    connector._engine.dispose()
