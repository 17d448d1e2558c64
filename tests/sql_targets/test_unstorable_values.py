"""The error of a value that the database cannot store names the stream, column and remedy."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
import sqlalchemy as sa

from tap_core.exceptions import DataError
from tap_core.redaction.row_values import LOG_ROWS
from tests.sql_targets.small_target import SmallConnector, SmallSink, SmallTarget, load, read_rows
from tests.target_base.messages import record, schema, state

COLUMNS = {
    "id": {"type": "integer"},
    "name": {"type": ["null", "string"]},
    "size": {"type": ["null", "integer"]},
}
BEYOND = [2**63, -(2**63) - 1, 2**64, 10**40]


def load_error(url: str, *rows: dict[str, Any], kind: type[SmallTarget] = SmallTarget) -> str:
    """Load rows of which one cannot be stored; return the error's message."""
    lines = [schema(**COLUMNS), *(record("a", **row) for row in rows), state({"n": 1})]
    with pytest.raises(DataError) as caught:
        load(kind, url, *lines)
    assert isinstance(caught.value, sa.exc.DataError)
    return str(caught.value)


def rows_with(number: int, **values: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{"id": n, "name": f"n{n}", "size": n} for n in range(40)]
    rows[number] |= values
    return rows


@pytest.mark.parametrize("number", BEYOND)
@pytest.mark.parametrize("index", [0, 17, 39])
def test_error_names_an_integer_out_of_range_and_its_column(url, number, index):
    """SEC21: an integer that the database cannot store is an error that names it."""
    message = load_error(url, *rows_with(index, size=number))
    assert f"stream 'a' has a value that the database ({url.partition('+')[0]:.6}" in message
    assert f"cannot store in its column 'size': {number} (" in message
    assert "Correct the value in the tap or with a stream map" in message
    assert read_rows(url, "a") == []


def test_error_names_a_key_that_cannot_be_stored(url):
    assert f"its column 'id': {2**64} (" in load_error(url, *rows_with(5, id=2**64, name=None))


def test_error_names_a_text_with_an_unpaired_surrogate(url):
    message = load_error(url, *rows_with(21, name="x\ud800"))
    assert r"its column 'name': 'x\ud800' (UnicodeEncodeError: " in message


def test_error_names_a_text_with_a_null_character(postgres_url):
    assert r"its column 'name': 'x\x00' (" in load_error(postgres_url, *rows_with(21, name="x\0"))


def test_error_names_a_text_longer_than_its_column(postgres_url):
    with_limit = "CREATE TABLE a (id bigint, name varchar(3), size bigint)"
    engine = sa.create_engine(postgres_url)
    with engine.begin() as connection:
        connection.exec_driver_sql(with_limit)
    engine.dispose()

    class KeepingConnector(SmallConnector):
        def prepare_table(self, *_args, **_kwargs):
            """Do not change the table."""

    class KeepingSink(SmallSink):
        connector_class = KeepingConnector

    class KeepingTarget(SmallTarget):
        default_sink_class = KeepingSink

    message = load_error(postgres_url, *rows_with(33, name="y" * 1000), kind=KeepingTarget)
    assert f"its column 'name': '{'y' * 59}… (" in message
    assert "too long" in message


def test_error_names_the_value_with_an_overridden_insert_statement(url):
    class Own(SmallSink):
        def generate_insert_statement(self, full_table_name, schema):
            return str(super().generate_insert_statement(full_table_name, schema))

    class OwnTarget(SmallTarget):
        default_sink_class = Own

    with pytest.warns(DeprecationWarning, match="as a string is deprecated"):
        message = load_error(url, *rows_with(8, size=2**64), kind=OwnTarget)
    assert f"its column 'size': {2**64} (" in message


def test_error_hides_the_value_if_row_logging_is_off(url, monkeypatch):
    monkeypatch.setenv(LOG_ROWS, "false")
    message = load_error(url, *rows_with(8, size=2**64))
    assert "its column 'size': <integer> (" in message
    assert str(2**64) not in message


@pytest.mark.parametrize("is_shown", [True, False])
def test_error_of_a_statement_hides_its_parameters_if_row_logging_is_off(
    url, is_shown, monkeypatch
):
    """A row with a key that exists is an error of SQLAlchemy, which shows all rows of the batch.

    The message of PostgreSQL's driver contains the key.
    """
    if not is_shown:
        monkeypatch.setenv(LOG_ROWS, "false")
    lines = [schema(**COLUMNS), *(record("a", id=424242, size=535353) for _ in range(2))]
    with pytest.raises(sa.exc.IntegrityError) as caught:
        load(SmallTarget, url, *lines)
    printed = "".join(traceback.format_exception(caught.value))
    assert ("424242" in printed) is is_shown
    assert ("535353" in printed) is is_shown
    assert ("TAP_CORE_LOG_ROWS hides values of rows" in printed) is not is_shown
    assert type(caught.value.orig).__name__ in str(caught.value)


def test_integer_beyond_pythons_digit_limit_is_described_by_its_type(url):
    class Growing(SmallSink):
        def preprocess_record(self, record, context):
            return {**record, "size": 10**5000}

    class GrowingTarget(SmallTarget):
        default_sink_class = Growing

    message = load_error(url, *rows_with(8), kind=GrowingTarget)
    assert "its column 'size': <integer> (" in message


class AutocommitConnector(SmallConnector):
    """Connector in autocommit mode."""

    def create_engine(self):
        return super().create_engine().execution_options(isolation_level="AUTOCOMMIT")


class AutocommitSink(SmallSink):
    connector_class = AutocommitConnector


class AutocommitTarget(SmallTarget):
    default_sink_class = AutocommitSink


def test_rows_are_not_retried_singly_in_autocommit_mode(postgres_url):
    message = load_error(postgres_url, *rows_with(8, size=2**64), kind=AutocommitTarget)
    assert "cannot store in one of its columns (" in message
    loaded_ids = [row[0] for row in read_rows(postgres_url, "SELECT id FROM a")]
    assert len(loaded_ids) == len(set(loaded_ids))


class UnknownDialectConnector(SmallConnector):
    """Connector of a database with an unknown dialect."""

    def create_engine(self):
        engine = super().create_engine()
        engine.dialect.name = "strange"
        return engine


class UnknownDialectSink(SmallSink):
    connector_class = UnknownDialectConnector


class UnknownDialectTarget(SmallTarget):
    default_sink_class = UnknownDialectSink


def test_error_of_an_unknown_database_gives_only_the_cause(sqlite_url):
    message = load_error(sqlite_url, *rows_with(8, size=2**64), kind=UnknownDialectTarget)
    assert "the database (strange) cannot store in one of its columns (OverflowError: " in message


def test_error_of_a_violated_constraint_names_the_stream_and_the_table(url):
    rows = [*rows_with(0), {"id": 0}]
    with pytest.raises(sa.exc.IntegrityError) as caught:
        load(SmallTarget, url, schema(**COLUMNS), *(record("a", **row) for row in rows))
    assert isinstance(caught.value, DataError)
    message = str(caught.value)
    assert message.startswith("A record of stream 'a' violates a constraint of table '")
    assert f"a' ({url.partition('+')[0]:.6}" in message
    assert message.endswith(
        ". Correct the record in the tap or with a stream map, or change the constraint."
    )
    assert read_rows(url, "a") == []
