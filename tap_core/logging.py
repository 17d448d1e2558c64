"""Logging to standard error, as text or as JSON lines.

- The environment variable ``<PLUGIN>_LOGLEVEL`` or ``LOGLEVEL`` sets the level; default: INFO.
- On a terminal, metrics are logged only at level DEBUG, because they are meant for programs.
- The variable ``SINGER_SDK_LOG_CONFIG`` may contain the path of a file for
  :func:`logging.config.dictConfig`. Module names of singer_sdk in this file, which Meltano writes,
  are replaced with those of this package. An invalid file causes only a warning.
- Secrets and control characters are removed from all log records: see ``tap_core.redaction``.
"""

from __future__ import annotations

import importlib
import json
import linecache
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from tap_core import metrics
from tap_core.redaction import (
    HIDDEN,
    clean_document,
    escape_control_characters,
    redact,
    redact_line,
)
from tap_core.redaction.log_records import (
    BUILTIN_FIELDS,
    ExcInfo,
    RedactingFormatter,
    clean_record,
    format_error,
)
from tap_core.redaction.process_secrets import install_redaction, write_to_stderr

__all__ = [
    "DEFAULT_FORMAT",
    "DEFAULT_LOG_LEVEL",
    "ConsoleFormatter",
    "StructuredFormatter",
    "plugin_log_level",
    "setup_console_logging",
    "warn_about_log_level",
    "without_console",
]

DEFAULT_FORMAT = "{asctime:23s} | {levelname:8s} | {name:30s} | {message}"
DEFAULT_LOG_LEVEL = "INFO"

_LOG_CONFIG_VARIABLE = "SINGER_SDK_LOG_CONFIG"

_logger = logging.getLogger(__name__)


class ConsoleFormatter(logging.Formatter):
    """Formatter that writes each log record as a line of text: time, level, logger and message."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"fmt": DEFAULT_FORMAT, "style": "{", **kwargs})

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as a line of text, followed by the lines of its traceback if any."""
        return super().format(clean_record(record))


class StructuredFormatter(logging.Formatter):
    """Formatter that writes each log record as a line of JSON, in the format that Meltano expects.

    The fields are level, pid, logger_name, ts (seconds since 1970), thread_name, app_name,
    stream_name, message and extra. A record with an error also has ``exception`` (type, module,
    message, traceback, cause or context), and a metric has ``metric_info``.
    """

    def __init__(self, *, defaults: dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._defaults = defaults or {}

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as a line of JSON, without secrets."""
        record = clean_record(record)
        fields = self._defaults | vars(record)
        extra_fields = {key: value for key, value in fields.items() if key not in BUILTIN_FIELDS}
        extra = clean_document(_to_json(extra_fields), redact_line)
        line: dict[str, Any] = {
            "level": record.levelname.lower(),
            "pid": record.process,
            "logger_name": record.name,
            "ts": record.created,
            "thread_name": record.threadName,
            "app_name": extra.pop("app_name", "singer-sdk"),
            "stream_name": extra.pop("stream_name", None),
        }
        if record.exc_info and (exception := _describe_exception(record.exc_info)):
            line["exception"] = exception
        line.update(_make_message_fields(record))
        line["extra"] = extra
        return escape_control_characters(json.dumps(line, default=str, separators=(",", ":")))


def _to_json(value: Any) -> Any:
    """Convert a value that was passed to a logger to JSON types; any object becomes its text.

    Texts in the result may contain secrets, but its keys and numbers do not.
    """
    if isinstance(value, dict):
        return {redact_line(str(key)): _to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(item) for item in value]
    if isinstance(value, (int, float)) and redact_line(str(value)) != str(value):
        return HIDDEN
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def _make_message_fields(record: logging.LogRecord) -> dict[str, Any]:
    point = record.args[0] if isinstance(record.args, tuple) and record.args else None
    if record.msg == "METRIC: %s" and isinstance(point, metrics.Point):
        return {"message": "METRIC", "metric_info": point.to_dict()}
    return {"message": record.getMessage()}


def _describe_exception(
    raised: ExcInfo, outer: tuple[BaseException, ...] = ()
) -> dict[str, Any] | None:
    """Return an exception as a dict, with its cause or context as a nested dict.

    ``outer`` are the exceptions that contain this one in the dict; they are not included again.
    Exceptions form a cycle after ``raise error from error``, for example.
    """
    kind, error, trace = raised
    if kind is None or error is None:
        return None
    details: dict[str, Any] = {
        "type": kind.__name__,
        "module": kind.__module__,
        "message": redact_line(str(error)),
    }
    if trace is not None:
        details["traceback"] = _describe_frames(trace)
    name, other = "context", error.__context__
    if error.__suppress_context__:  # raised from another exception, or from None
        name, other = "cause", error.__cause__
    chain = (*outer, error)
    if other is not None and all(other is not member for member in chain):
        details[name] = _describe_exception((type(other), other, other.__traceback__), chain)
    return details


def _describe_frames(trace: TracebackType | None) -> list[dict[str, Any]]:
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(
            {
                "filename": code.co_filename,
                "function": code.co_name,
                "lineno": trace.tb_lineno,
                "line": redact(linecache.getline(code.co_filename, trace.tb_lineno), by_name=False),
            }
        )
        trace = trace.tb_next
    return frames


# Setting up


def plugin_log_level(plugin_name: str) -> str:
    """Return the log level of a plugin from the environment; by default INFO.

    The variables are ``<PLUGIN>_LOGLEVEL`` and, without it, ``LOGLEVEL``. An invalid level counts
    as INFO.
    """
    level = _get_level_variable(plugin_name)[1].strip().upper()
    return level if isinstance(logging.getLevelName(level), int) else DEFAULT_LOG_LEVEL


def warn_about_log_level(plugin_name: str) -> None:
    """Log a warning if the environment sets an unknown log level for a plugin."""
    variable, level = _get_level_variable(plugin_name)
    if not isinstance(logging.getLevelName(level.strip().upper()), int):
        _logger.warning(
            "%s: there is no log level '%s', so %s is used. The levels are DEBUG, INFO, WARNING,"
            " ERROR and CRITICAL.",
            variable,
            level,
            DEFAULT_LOG_LEVEL,
        )


def _get_level_variable(plugin_name: str) -> tuple[str, str]:
    """Return the environment variable that sets a plugin's log level, and the level."""
    plugin_variable = f"{plugin_name.upper().replace('-', '_')}_LOGLEVEL"
    variable = plugin_variable if os.environ.get(plugin_variable) else "LOGLEVEL"
    return variable, os.environ.get(variable) or DEFAULT_LOG_LEVEL


class _ConsoleHandler(logging.Handler):
    """Log handler that writes to the current ``sys.stderr``, which tests may have replaced.

    If ``sys.stderr`` is a terminal, metrics are omitted unless their logger's level is DEBUG.
    """

    def emit(self, record: logging.LogRecord) -> None:
        if _is_hidden_metric(record):
            return
        try:
            sys.stderr.write(f"{self.format(record)}\n")
            sys.stderr.flush()
        except Exception as error:  # noqa: BLE001  `logging` would show it with secrets
            write_to_stderr(f"A line of the log was lost: {format_error(error, redact)}\n")


def _is_hidden_metric(record: logging.LogRecord) -> bool:
    if record.name != metrics.METRICS_LOGGER_NAME or record.msg != "METRIC: %s":
        return False
    is_shown = metrics.get_metrics_logger().isEnabledFor(logging.DEBUG)
    return not is_shown and sys.stderr is not None and sys.stderr.isatty()


def setup_console_logging(log_level: str | int | None = None) -> None:
    """Log to standard error, and apply the file in ``SINGER_SDK_LOG_CONFIG`` if that is set.

    Secrets are removed from log records and from the tracebacks of uncaught exceptions.
    """
    install_redaction()
    _set_exception_hooks()
    _remove_console_handlers()
    handler = _ConsoleHandler()
    handler.setFormatter(ConsoleFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(log_level or DEFAULT_LOG_LEVEL)
    if path := os.environ.get(_LOG_CONFIG_VARIABLE):
        _apply_log_config(Path(path))


@contextmanager
def without_console() -> Iterator[None]:
    """Remove the handlers that log to standard error during the ``with`` block; keep all others."""
    removed = _remove_console_handlers()
    try:
        yield
    finally:
        for handler in removed:
            logging.getLogger().addHandler(handler)


def _remove_console_handlers() -> list[_ConsoleHandler]:
    """Remove the handlers that log to standard error from the root logger, and return them."""
    root = logging.getLogger()
    removed = [handler for handler in root.handlers if isinstance(handler, _ConsoleHandler)]
    for handler in removed:
        root.removeHandler(handler)
    return removed


def _apply_log_config(path: Path) -> None:
    import logging.config as stdlib_config

    try:
        config = _rename_modules(_parse_log_config(path.read_text(encoding="utf-8")))
        # Meltano's configuration would otherwise disable the loggers of all imported modules.
        stdlib_config.dictConfig({**config, "disable_existing_loggers": False})
        _redact_all_handlers()
    except FileNotFoundError:
        _logger.warning("Logging config file not found: %s", path)
    except (OSError, ValueError, TypeError, AttributeError, ImportError) as error:
        _logger.warning("Logging config file %s cannot be used: %s", path, error)


def _redact_all_handlers() -> None:
    """Make the formatters of all log handlers remove secrets."""
    loggers = [logging.getLogger(), *map(logging.getLogger, list(logging.root.manager.loggerDict))]
    for handler in {handler for logger in loggers for handler in logger.handlers}:
        inner = handler.formatter or logging.Formatter()
        if not isinstance(inner, (ConsoleFormatter, StructuredFormatter, RedactingFormatter)):
            handler.setFormatter(RedactingFormatter(inner))


def _set_exception_hooks() -> None:
    """Set exception hooks that remove secrets from the tracebacks of uncaught exceptions.

    Hooks that other code has set are not replaced, except that of the package exceptiongroup, which
    sets one on import in Python 3.10.
    """
    module = getattr(sys.excepthook, "__module__", None) or ""
    if sys.excepthook is sys.__excepthook__ or module.startswith("exceptiongroup."):
        sys.excepthook = _show_error
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _show_thread_error
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _show_ignored_error


def _show_error(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    write_to_stderr(f"{format_error((kind, error, trace), redact)}\n")


def _show_thread_error(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and not issubclass(args.exc_type, SystemExit):
        _show_error(args.exc_type, args.exc_value, args.exc_traceback)


def _show_ignored_error(args: sys.UnraisableHookArgs) -> None:
    """Show an error that Python cannot raise, such as one in a finalizer or an exit function."""
    if args.exc_value is not None:
        location = getattr(args.object, "__qualname__", type(args.object).__qualname__)
        write_to_stderr(f"{args.err_msg or 'Exception ignored in'}: {location}\n")
        _show_error(args.exc_type, args.exc_value, args.exc_traceback)


def _parse_log_config(text: str) -> Any:
    """Parse the text of a log configuration file, JSON or YAML; YAML needs the package PyYAML.

    Raises:
        ValueError: The text is neither JSON nor YAML.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        yaml = importlib.import_module("yaml")
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"it is neither JSON nor YAML: {error}") from None


def _rename_modules(value: Any) -> Any:
    if isinstance(value, dict):
        return {_rename_module(key): _rename_modules(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rename_modules(item) for item in value]
    return _rename_module(value)


def _rename_module(name: Any) -> Any:
    if isinstance(name, str) and (name == "singer_sdk" or name.startswith("singer_sdk.")):
        return name.replace("singer_sdk", "tap_core", 1)
    return name
