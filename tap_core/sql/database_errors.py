"""Errors of databases, without passwords, and without values of rows if these are not shown.

SQLAlchemy's connection errors are replaced by `DatabaseUnreachableError`, and the errors of
statements whose connection was lost by `ConnectionLostError`. The password is also removed from the
driver's error, because tracebacks print its message.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy import event, exc

from tap_core.exceptions import ConfigurationError
from tap_core.redaction import HIDDEN, Secrets
from tap_core.redaction.row_values import LOG_ROWS, are_rows_shown

__all__ = [
    "ConnectionLostError",
    "DatabaseUnreachableError",
    "install_error_translation",
    "parse_url",
    "translate_url_errors",
]

_VALUE_ERRORS = (exc.DataError, exc.IntegrityError)
"""Errors whose messages contain values, such as "Key (email)=(ann@example.org) already exists"."""
_HIDDEN_MESSAGE = f"the database's message is hidden, because {LOG_ROWS} hides values of rows"


class DatabaseUnreachableError(ConfigurationError, exc.OperationalError):
    """Error for a failed connection: the server does not respond, or it rejects the user.

    The class is also a `sqlalchemy.exc.OperationalError`, because a tap's code may catch that
    error. The attribute ``orig`` is the driver's error.
    """

    def __init__(self, message: str, orig: BaseException) -> None:
        """Create the error from its message and ``orig``, the driver's error."""
        exc.OperationalError.__init__(self, None, None, orig)
        self.message = message
        self.args = (message,)

    def __str__(self) -> str:
        return self.message


class ConnectionLostError(exc.OperationalError):
    """Error for a connection that the server, or the network, closed during a statement.

    The attribute ``orig`` is the driver's error.
    """

    def __init__(self, message: str, orig: BaseException) -> None:
        """Create the error from its message and ``orig``, the driver's error."""
        super().__init__(None, None, orig, connection_invalidated=True)
        self.message = message
        self.args = (message,)

    def __str__(self) -> str:
        return self.message


def install_error_translation(engine: sa.Engine) -> sa.Engine:
    """Make an engine raise the errors of this module for failed connections; return the engine.

    If its pool cannot reset a lost connection, that is logged without a traceback. If messages must
    not contain record values, SQLAlchemy's errors do not show the parameters of a statement, nor
    the driver's message about a value or a violated constraint. An object that is not a SQLAlchemy
    engine is returned unchanged.
    """
    if isinstance(engine, sa.Engine):  # `create_engine` of a subclass may return another object
        engine.hide_parameters = engine.hide_parameters or not are_rows_shown()
        event.listen(engine, "handle_error", _translate_error)
        pool = type(engine.pool)
        name = f"{pool.__module__}.{pool.__qualname__}"  # as in SQLAlchemy
        logging.getLogger(name).addFilter(_replace_traceback)
    return engine


def _replace_traceback(record: logging.LogRecord) -> bool:
    """Replace the traceback of a pool's message by the error's message; return True to log it."""
    error = record.exc_info[1] if record.exc_info else None
    if error is not None:
        record.msg = f"{record.getMessage()}: {_describe_error(error, str(error))}"
        record.args = ()
        record.exc_info = None
    return True


@contextmanager
def translate_url_errors() -> Iterator[None]:
    """Context manager that replaces SQLAlchemy's errors for invalid database URLs.

    The messages of SQLAlchemy's errors may contain the password.

    Raises:
        ConfigurationError: The URL is invalid, or its dialect is not known.
    """
    try:
        yield
    except exc.NoSuchModuleError as error:
        raise ConfigurationError(f"The database's URL cannot be used: {error}") from None
    except exc.ArgumentError as error:
        if "URL" not in str(error):
            raise  # an error about other arguments of `create_engine`
        raise _unreadable_url() from None


def parse_url(text: str | sa.URL) -> sa.URL:
    """Parse a database URL, such as ``postgresql://user:password@host:5432/database``.

    Raises:
        ConfigurationError: The URL is invalid. The message does not contain the URL, because it
            may include a password.
    """
    try:
        return sa.make_url(text)
    except (exc.ArgumentError, ValueError):
        raise _unreadable_url() from None


def _unreadable_url() -> ConfigurationError:
    """Return the error for a database URL that cannot be parsed."""
    return ConfigurationError(
        "The database's URL cannot be read. It should look like"
        " dialect+driver://user:password@host:port/database, with every special character"
        " of user and password percent-encoded."
    )


def _translate_error(context: sa.engine.ExceptionContext) -> BaseException | None:
    """Return the error to raise for a failed connection; None if another operation failed.

    SQLAlchemy calls this function for its event ``handle_error``. For None, it raises its own
    error.
    """
    if context.engine is not None and context.connection is None:
        return _make_connection_error(context.original_exception, context.engine)
    error, original = context.sqlalchemy_exception, context.original_exception
    is_lost = context.is_disconnect and isinstance(error, exc.OperationalError)
    if context.engine is not None and is_lost:
        return ConnectionLostError(
            f"The connection to {_describe_database(context.engine)} was lost:"
            f" {_describe_error(original, str(original))}",
            original,
        )
    if isinstance(error, _VALUE_ERRORS) and not are_rows_shown():
        _hide_message(error, original)
    return None


def _hide_message(error: exc.DBAPIError, original: BaseException) -> None:
    """Replace the messages of the driver's error ``original`` and of SQLAlchemy's ``error``.

    The new messages show only the error's type, because the driver's may contain row values.
    """
    name = type(original).__name__
    original.args = (_HIDDEN_MESSAGE,)
    error.args = (f"({name}) {_HIDDEN_MESSAGE}",)


def _make_connection_error(original: BaseException, engine: sa.Engine) -> DatabaseUnreachableError:
    """Return the error for a failed connection of ``engine``, from the driver's error."""
    password = str(engine.url.password or "")
    original.args = tuple(
        _hide_password(password, argument) if isinstance(argument, str) else argument
        for argument in original.args
    )
    reason = _describe_error(original, _hide_password(password, str(original)))
    return DatabaseUnreachableError(
        f"No connection to {_describe_database(engine)}: {reason}", original
    )


def _describe_database(engine: sa.Engine) -> str:
    """Return an engine's database as text, such as ``database 'shop' at host:5432 (mysql)``."""
    url = engine.url
    location = f"{url.host or 'this machine'}{f':{url.port}' if url.port else ''}"
    return f"database '{url.database or ''}' at {location} ({engine.dialect.name})"


def _describe_error(error: BaseException, message: str) -> str:
    """Return the message of an error in one line, or the name of its class if there is none."""
    return " ".join(message.split()) or type(error).__name__


def _hide_password(password: str, text: str) -> str:
    """Replace a password in a text by a placeholder, even if the password is very short."""
    hidden = Secrets.from_values([password]).hide_values(text)
    return hidden.replace(password, HIDDEN) if password else hidden
