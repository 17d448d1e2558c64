"""Errors for records that a database rejects, and the search for the value that it cannot store.

The driver's error seldom names the row and column. So the search inserts half of the rows again,
and continues with the rejected half, until one row remains; then it inserts each value of this row
alone. Each trial runs in a savepoint that is rolled back. The search runs only on databases where a
rollback is known to remove rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import exc

from tap_core.exceptions import DataError
from tap_core.redaction.row_values import are_rows_shown, describe_value
from tap_core.sql.insert import BulkInsert

__all__ = [
    "Cell",
    "ConstraintViolationError",
    "UnstorableValueError",
    "find_cell",
    "find_driver_error",
    "make_constraint_error",
    "make_unstorable_error",
]

_VALUE_ERRORS: Final = (ArithmeticError, TypeError, ValueError)
"""Built-in errors that drivers raise for values; SQLAlchemy passes them on unchanged."""

_ROLLS_BACK: Final = frozenset({"postgresql", "sqlite"})
_LONGEST_SHOWN: Final = 60


class UnstorableValueError(DataError, exc.DataError):
    """Error for a value of a record that the database cannot store.

    The class is also a `sqlalchemy.exc.DataError`, because sinks may catch that error. The
    attribute ``orig`` is the driver's error.
    """

    def __init__(self, message: str, orig: BaseException) -> None:
        """Create the error from its message and ``orig``, the driver's error."""
        exc.DataError.__init__(self, None, None, orig)
        self.message = message
        self.args = (message,)

    def __str__(self) -> str:
        return self.message


class ConstraintViolationError(DataError, exc.IntegrityError):
    """Error for a record that violates a constraint of its table, such as NOT NULL.

    The class is also a `sqlalchemy.exc.IntegrityError`, because sinks may catch that error. The
    attribute ``orig`` is the driver's error.
    """

    def __init__(self, message: str, orig: BaseException) -> None:
        """Create the error from its message and ``orig``, the driver's error."""
        exc.IntegrityError.__init__(self, None, None, orig)
        self.message = message
        self.args = (message,)

    def __str__(self) -> str:
        return self.message


class Cell(NamedTuple):
    """Value that the database rejects, and the name of its column."""

    column: str
    value: Any


def find_driver_error(error: Exception) -> BaseException | None:
    """Return the driver's error that caused ``error``, if it is about an invalid value.

    Return None for any other error, such as a violated constraint.
    """
    if isinstance(error, exc.DataError):
        return error.orig
    if isinstance(error, exc.DBAPIError):
        return None
    plain = error.orig if isinstance(error, exc.StatementError) else error
    return plain if isinstance(plain, _VALUE_ERRORS) else None


def make_constraint_error(
    stream: str, table: str, dialect: str, reason: BaseException
) -> ConstraintViolationError:
    """Return an error whose message has the stream, the table, the driver's message and advice.

    Args:
        stream: Name of the stream.
        table: Name of the table.
        dialect: Name of the SQLAlchemy dialect, such as ``postgresql``.
        reason: Error of the driver.
    """
    detail = f"{type(reason).__name__}: {' '.join(str(reason).split()).rstrip('.')}"
    return ConstraintViolationError(
        f"A record of stream '{stream}' violates a constraint of table '{table}' ({dialect}):"
        f" {detail}. Correct the record in the tap or with a stream map, or change the constraint.",
        reason,
    )


def make_unstorable_error(
    stream: str, dialect: str, reason: BaseException, cell: Cell | None
) -> UnstorableValueError:
    """Return an error whose message has the stream, the column, the rejected value and advice.

    Args:
        stream: Name of the stream.
        dialect: Name of the SQLAlchemy dialect, such as ``postgresql``.
        reason: Error of the driver.
        cell: Rejected value and its column; None if they were not found.
    """
    name = type(reason).__name__
    detail = f"{name}: {' '.join(str(reason).split())}" if are_rows_shown() else name
    where = (
        f"its column '{cell.column}': {_format_value(cell.value)}" if cell else "one of its columns"
    )
    return UnstorableValueError(
        f"A record of stream '{stream}' has a value that the database ({dialect}) cannot store in"
        f" {where} ({detail}). Correct the value in the tap or with a stream map, or give the"
        " column a type that can hold it.",
        reason,
    )


def find_cell(
    connection: sa.Connection, insertion: BulkInsert, rows: Sequence[list[Any]]
) -> Cell | None:
    """Return the first value that the database rejects, found by inserting rows on trial.

    A value is rejected if the database rejects a row that has this value, and null in all other
    columns. Return None if there is no such value, or if the database may not roll back a trial.
    """
    if connection.dialect.name not in _ROLLS_BACK:
        return None

    def is_rejected(trial_rows: Sequence[list[Any]]) -> bool:
        trial = connection.begin_nested()
        try:
            insertion.run(connection, [row.copy() for row in trial_rows])
        except Exception as error:  # noqa: BLE001  an unrelated error, such as a null in a key
            return find_driver_error(error) is not None
        finally:
            trial.rollback()
        return False

    row = _find_row(rows, is_rejected)
    nulls: list[Any] = [None] * len(row)
    if not is_rejected([row]) or is_rejected([nulls]):
        return None
    for position, (column, value) in enumerate(zip(insertion.columns, row, strict=True)):
        if is_rejected([[*nulls[:position], value, *nulls[position + 1 :]]]):
            return Cell(column, value)
    return None


def _find_row(
    rows: Sequence[list[Any]], is_rejected: Callable[[Sequence[list[Any]]], bool]
) -> list[Any]:
    """Return the first of ``rows`` that the database rejects, found by bisection.

    At least one row must be rejected. ``is_rejected`` returns True for a list with a rejected row.
    """
    while len(rows) > 1:
        half = len(rows) // 2
        rows = rows[:half] if is_rejected(rows[:half]) else rows[half:]
    return rows[0]


def _format_value(value: Any) -> str:
    """Return a value as text for an error message, shortened to 60 characters and an ellipsis.

    If messages must not contain record values, return the value's type and length instead.
    """
    if not are_rows_shown():
        return describe_value(value)
    try:
        text = repr(value)
    except ValueError:  # an integer with more digits than Python converts to text
        return describe_value(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
