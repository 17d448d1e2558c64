"""Qualified names, engines, and errors of unreachable databases."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import traceback
from decimal import Decimal
from unittest import mock

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.engine.default import DefaultDialect

from tap_core.exceptions import ConfigurationError, ConfigValidationError
from tap_core.protocols.error_classification import failure_type
from tap_core.sql import SQLConnector
from tap_core.sql.connector import FullyQualifiedName
from tap_core.sql.database_errors import ConnectionLostError, DatabaseUnreachableError
from tests.postgres import Server

SECRET = "s3cret/wörd:@"  # characters that a URL must percent-encode


def make_connector() -> SQLConnector:
    return SQLConnector({"sqlalchemy_url": "sqlite://"})


# ------------------------------------------------------------------------------- names


def test_qualified_name_joins_its_parts_with_the_delimiter():
    name = FullyQualifiedName(database="db", schema="public", table="users")
    assert name == "db.public.users"
    assert (name.database, name.schema, name.table) == ("db", "public", "users")
    assert FullyQualifiedName(table="t", schema="s", delimiter="-") == "s-t"


def test_qualified_name_quotes_parts_as_the_dialect_requires():
    quoted = FullyQualifiedName(table="order", schema="public", dialect=DefaultDialect())
    assert quoted == 'public."order"'
    assert FullyQualifiedName(table="order", schema="public") == "public.order"
    assert make_connector().get_fully_qualified_name('a"b.c', "main") == 'main."a""b.c"'


def test_subclass_overrides_the_quoting_of_a_part():
    class BracketedName(FullyQualifiedName):
        def prepare_part(self, part: str) -> str:
            return f"[{part}]"

    assert BracketedName(table="t", schema="s") == "[s].[t]"


def test_qualified_name_without_parts_is_rejected():
    with pytest.raises(ValueError, match=r"Could not generate fully qualified name: .unknown-db"):
        FullyQualifiedName()


@pytest.mark.parametrize(
    "text, parts",
    [
        ("t", (None, None, "t")),
        ("s.t", (None, "s", "t")),
        ("d.s.t", ("d", "s", "t")),
    ],
)
def test_table_name_text_is_split_at_dots(text, parts):
    assert make_connector().parse_full_table_name(text) == parts


def test_table_name_text_with_more_than_three_parts_is_rejected():
    with pytest.raises(ValueError, match="more than three parts"):
        make_connector().parse_full_table_name("a.b.c.d")


@given(st.text(min_size=1), st.text(), st.text())
def test_qualified_name_with_special_characters_parses_to_the_same_parts(table, schema, database):
    connector = make_connector()
    name = connector.get_fully_qualified_name(table, schema or None, database or None)
    assert connector.parse_full_table_name(name) == (database or None, schema or None, table)


def test_quote_method_is_deprecated():
    with pytest.warns(PendingDeprecationWarning, match="FullyQualifiedName"):
        assert make_connector().quote("main.a b") == 'main."a b"'


# ----------------------------------------------------------------------------- engines


def test_engine_is_created_lazily_and_cached():
    connector = make_connector()
    assert connector._cached_engine is None
    assert connector._engine is connector._engine is connector._cached_engine
    assert connector._dialect is connector._engine.dialect
    assert connector.create_engine() is not connector._engine


def test_connector_without_a_url_names_the_missing_setting():
    with pytest.raises(ConfigValidationError, match="Could not find or create 'sqlalchemy_url'"):
        _ = SQLConnector({}).sqlalchemy_url
    assert SQLConnector({}, "sqlite://").sqlalchemy_url == "sqlite://"


def test_dialect_without_json_support_gets_an_engine():
    class RecordingConnector(SQLConnector):
        calls: list[dict[str, object]] = []

    create_engine = sa.create_engine

    def record_and_create(*args, **kwargs):
        RecordingConnector.calls.append(kwargs)
        if "json_serializer" in kwargs:
            raise TypeError("Invalid argument(s) 'json_serializer'")
        return create_engine(*args, **kwargs)

    with mock.patch.object(sa, "create_engine", record_and_create):
        assert RecordingConnector({"sqlalchemy_url": "sqlite://"})._engine.dialect.name == "sqlite"
    assert len(RecordingConnector.calls) == 2


def test_json_columns_keep_every_digit():
    connector = make_connector()
    table = sa.Table("t", sa.MetaData(), sa.Column("j", sa.JSON))
    with connector._engine.begin() as connection:
        table.create(connection)
        connection.execute(table.insert(), {"j": {"x": Decimal("1.10")}})
        assert connection.execute(table.select()).scalar() == {"x": Decimal("1.10")}


def test_connections_use_stream_results():
    with make_connector()._connect() as connection:
        assert connection.get_execution_options()["stream_results"] is True
        assert connection.execute(sa.text("select 1")).scalar() == 1


def test_connections_are_not_limited_by_the_pool(tmp_path):
    """More threads than SQLAlchemy's limit of 15 connections may read at the same time."""
    connector = SQLConnector({"sqlalchemy_url": f"sqlite:///{tmp_path / 'shop.db'}"})
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            connection = stack.enter_context(connector._connect())
            assert connection.execute(sa.text("select 1")).scalar() == 1


def test_deprecated_connection_methods_work_and_warn():
    connector = make_connector()
    with pytest.warns(PendingDeprecationWarning, match="create_sqlalchemy_engine"):
        assert connector.create_sqlalchemy_engine() is connector._engine
    with pytest.warns(PendingDeprecationWarning, match="create_sqlalchemy_connection"):
        connector.create_sqlalchemy_connection().close()
    with (
        pytest.warns(PendingDeprecationWarning, match="create_sqlalchemy_connection"),
        pytest.warns(PendingDeprecationWarning, match=r"SQLConnector\.connection"),
    ):
        connector.connection.close()


def test_connector_uses_the_sqlconnector_logger():
    assert make_connector().logger.name == "sqlconnector"


# ------------------------------------------------------------------ unreachable databases


def format_error(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + repr(error.__dict__)


def list_secret_forms() -> list[str]:
    url = sa.URL.create("x", "u", SECRET, "h").render_as_string(hide_password=False)
    return [SECRET, url.split(":", 2)[2].rpartition("@")[0]]


def test_refused_connection_error_names_host_and_database_but_not_the_password():
    url = sa.URL.create("postgresql+psycopg", "joe", SECRET, "127.0.0.1", 1, "shop")
    connector = SQLConnector({"sqlalchemy_url": url.render_as_string(hide_password=False)})
    for call in (
        connector.discover_catalog_entries,
        lambda: connector.table_exists("t"),
        lambda: connector._connect().__enter__(),
    ):
        with pytest.raises(DatabaseUnreachableError) as caught:
            call()
        assert str(caught.value).startswith(
            "No connection to database 'shop' at 127.0.0.1:1 (postgresql): "
        )
        assert not any(form in format_error(caught.value) for form in list_secret_forms())
    assert isinstance(caught.value, ConfigurationError)
    assert isinstance(caught.value, sa.exc.OperationalError)
    assert not any(form in repr(connector._engine) for form in list_secret_forms())


@pytest.mark.parametrize("password", [SECRET, "q7"])
def test_password_in_a_driver_error_is_redacted(password):
    def connect():
        raise sqlite3.OperationalError(f"cannot log in with {password}\nat all")

    class FailingConnector(SQLConnector):
        def create_engine(self) -> sa.Engine:
            engine = sa.create_engine("sqlite://", creator=connect)
            engine.url = sa.URL.create("sqlite", password=password)
            return engine

    with pytest.raises(DatabaseUnreachableError) as caught, FailingConnector()._connect():
        pass
    assert str(caught.value) == (
        "No connection to database '' at this machine (sqlite): cannot log in with *** at all"
    )
    assert password not in format_error(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql+psycopg://joe:{SECRET}@host:port/shop",
        f"no url with {SECRET}",
    ],
)
def test_error_of_an_unparsable_url_does_not_show_the_url(url):
    connector = SQLConnector({"sqlalchemy_url": url})
    with pytest.raises(ConfigurationError, match="percent-encoded") as caught:
        connector.discover_catalog_entries()
    assert SECRET not in format_error(caught.value)
    assert caught.value.__suppress_context__


def test_unknown_dialect_is_named_in_the_error():
    connector = SQLConnector({"sqlalchemy_url": "unheard://u:secret@h/d"})
    with pytest.raises(ConfigurationError, match=r"dialects:unheard") as caught:
        _ = connector._engine
    assert "secret" not in str(caught.value)


def test_error_of_an_overridden_create_engine_does_not_show_the_url():
    class InvalidUrlConnector(SQLConnector):
        def create_engine(self) -> sa.Engine:
            return sa.create_engine(self.config["address"])

    class InvalidArgumentConnector(SQLConnector):
        def create_engine(self) -> sa.Engine:
            raise sa.exc.ArgumentError("an odd argument")

    with pytest.raises(ConfigurationError, match="percent-encoded"):
        _ = InvalidUrlConnector({"address": f"no url with {SECRET}"})._engine
    with pytest.raises(sa.exc.ArgumentError, match="an odd argument"):
        _ = InvalidArgumentConnector()._engine


def test_create_engine_may_return_any_object():
    class Fake(SQLConnector):
        def create_engine(self):
            return "an engine"

    assert Fake()._engine == "an engine"


def test_statement_error_is_raised_unchanged():
    with (
        pytest.raises(sa.exc.OperationalError) as caught,
        make_connector()._connect() as connection,
    ):
        connection.execute(sa.text("select * from nowhere"))
    assert not isinstance(caught.value, DatabaseUnreachableError)


def test_server_error_for_a_wrong_password_is_reported_without_the_password(postgres: Server):
    with postgres.database() as database:
        wrong_url = database.url.replace(database.password, "not-the-password")
        with pytest.raises(
            DatabaseUnreachableError, match="password authentication failed"
        ) as caught:
            SQLConnector({"sqlalchemy_url": wrong_url}).discover_catalog_entries()
    assert "not-the-password" not in format_error(caught.value)
    assert database.name in str(caught.value)


END_BACKENDS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


def test_lost_connection_error_names_the_database_instead_of_the_statement(postgres: Server):
    with postgres.database() as database:
        connector = SQLConnector({"sqlalchemy_url": database.url})
        statement = sa.text(f"{END_BACKENDS} OR pid = pg_backend_pid()")
        with pytest.raises(ConnectionLostError) as caught, connector._transaction() as connection:
            connection.execute(statement)
        assert str(caught.value).startswith(
            f"The connection to database '{database.name}' at 127.0.0.1:{database.port}"
            " (postgresql) was lost: "
        )
        assert "\n" not in str(caught.value)
        assert "SELECT" not in str(caught.value)
        assert caught.value.connection_invalidated
        assert failure_type(caught.value) == "transient_error"
        with connector._transaction() as connection:
            assert connection.execute(sa.text("SELECT 1")).scalar() == 1
        connector.close()


def test_lost_connection_is_returned_to_the_pool_without_a_traceback(
    postgres: Server, caplog: pytest.LogCaptureFixture
):
    """SQLAlchemy does not see that a connection is lost while the driver is used directly."""
    with postgres.database() as database:
        connector = SQLConnector({"sqlalchemy_url": database.url})
        with connector._connect() as connection:
            connection.connection.driver_connection.execute("SELECT 1")
            database.run(END_BACKENDS)
        connector.close()
    [record] = [record for record in caplog.records if record.name.startswith("sqlalchemy.pool")]
    assert record.exc_info is None
    assert record.getMessage().startswith("Exception during reset or similar: ")


def test_missing_sqlalchemy_is_named_with_its_extra() -> None:
    """Python raises the same error for None in ``sys.modules`` as for a missing package."""
    program = "import sys; sys.modules['sqlalchemy'] = None; from tap_core import SQLTap"
    command = [sys.executable, "-c", program]
    process = subprocess.run(command, check=False, capture_output=True, text=True)
    assert process.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: SQL taps and targets need SQLAlchemy: pip install 'tap-core-sdk[sql]'"
    )
