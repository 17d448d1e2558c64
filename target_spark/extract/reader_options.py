"""Parser of the options of `spark.read.format("tap")`, which runs on the driver.

Spark shows options in its plans, its UI and its event log, so they must not contain secrets.
Settings come from files, environment variables, or a registered data source class. They are pickled
in the objects that Spark sends to its workers.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tap_core.config.loading import ConfigInput, parse_environment_config
from tap_core.config.similar_names import suggest
from tap_core.events import SchemaEvent
from tap_core.exceptions import ConfigurationError
from tap_core.limits.memory import STATE_BYTES, InputTooLargeError, read_at_most
from tap_core.protocols.singer.catalog_file import parse_catalog
from tap_core.redaction import clean_document, make_redactor
from tap_core.state.reader import parse_json, read_state
from tap_core.sync.plan import get_schemas
from target_spark.columns import ColumnOptions, Decimal, TableSchema, schema_from_json_schema
from target_spark.columns.types import MAX_DIGITS
from target_spark.errors import FrameError, TargetSparkError, UnsupportedError
from target_spark.extract.tap_factory import TapSpec, describe_error, import_tap_class
from target_spark.loader.stream_context import resolve_schema

if TYPE_CHECKING:
    from tap_core.tap_base import Tap

__all__ = ["OPTIONS", "ReadOptions", "parse_options", "select_single_stream"]

OPTIONS: Final[Mapping[str, str]] = {
    "tap": "the tap's class, as in tap_x:TapX",
    "stream": "the stream to read",
    "config": "settings files, separated by commas; ENV for environment variables",
    "catalog": "a catalog, or the path of a catalog file",
    "state": "a state to continue from, or the path of a state file",
    "misfits": "error (the default) or null: treatment of values that do not fit their columns",
    "tries": "number of attempts to read a context; default 3",
    "partitions": "maximum number of partitions; default one per context",
    "numbers_as_decimal": "precision and scale of numbers without multipleOf, as in 38,9",
    "oversized_numbers_as_text": "true to read numbers of more than 38 digits as text",
    "truncate_timestamps": "true to drop digits after microseconds",
}

_TRIES: Final = 3
_DECIMAL: Final = re.compile(r"([1-9]\d?),(\d\d?)")


@dataclass(frozen=True, slots=True, repr=False)
class ReadOptions:
    """Parsed options of a DataFrame reader for one stream of a tap.

    Attributes:
        source: The class, settings and catalog of the tap.
        stream: The name of the stream in the tap.
        name: The name of the stream with its namespace, after the tap's stream maps, which may
            rename it.
        table_schema: The columns of the DataFrame.
        state: The Singer state to continue from.
        nulls: True to replace a value that cannot be converted to its column's type by null; False
            to raise an error.
        tries: The number of attempts to read a context (a partition of the stream, as in Singer).
        partitions: The maximum number of Spark partitions; None for one partition per context.
    """

    source: TapSpec
    stream: str
    name: str
    table_schema: TableSchema
    state: Mapping[str, Any]
    nulls: bool = False
    tries: int = _TRIES
    partitions: int | None = None

    def tap(self) -> Tap:
        """Return a new tap with the settings and the state; only the stream to read is selected."""
        return select_single_stream(self.source.new(self.state), self.stream)

    def describe_error(self, error: BaseException) -> str:
        """Return the class name and text of an error; redact the secrets of the tap's settings."""
        return describe_error(self.source, error)


def select_single_stream(tap: Tap, stream: str) -> Tap:
    """Select only the stream named ``stream`` in a tap, and return the tap."""
    for name, candidate in tap.streams.items():
        if candidate.selected != (name == stream):  # setting it discards the stream's sync plan
            candidate.selected = name == stream
    return tap


def parse_options(
    raw_options: Mapping[str, str], config: Mapping[str, Any] | None = None
) -> ReadOptions:
    """Parse the options of a DataFrame reader, and get the stream's schema from the tap.

    Args:
        raw_options: The options of the DataFrame reader, by name (see `OPTIONS`).
        config: The tap's settings that were registered with the data source class, or None.

    Raises:
        UnsupportedError: An option is unknown, missing or invalid.
        ConfigurationError: The tap, its settings, its catalog or its state cannot be used.
        FrameError: The tap cannot list its streams.
    """
    options = _parse_options(raw_options)
    tap, stream = _get_required(options, "tap"), _get_required(options, "stream")
    source = TapSpec(
        id=uuid.uuid4().hex,
        tap=tap,
        config=_merge_settings(options.get("config"), config, tap),
        catalog=_read_document(options.get("catalog"), parse_catalog, "catalog"),
    )
    state = _read_document(options.get("state"), read_state, "state") or {}
    schema_event, name_in_tap = _discover_stream(source, stream)
    table_schema = schema_from_json_schema(
        resolve_schema(schema_event), schema_event.keys, _parse_column_options(options)
    )
    return ReadOptions(
        source,
        name_in_tap,
        str(schema_event.stream),
        table_schema,
        state,
        nulls=_get_choice(options, "misfits", ("error", "null")) == "null",
        tries=_get_count(options, "tries") or _TRIES,
        partitions=_get_count(options, "partitions"),
    )


# ------------------------------------------------------------------------------ the stream


def _discover_stream(source: TapSpec, name: str) -> tuple[SchemaEvent, str]:
    try:
        return _find_stream(source, name)
    except (TargetSparkError, ConfigurationError):
        raise
    except Exception as error:  # noqa: BLE001  it is reported without secrets
        reason = describe_error(source, error)
        raise FrameError(f"The tap {source.tap} cannot list its streams: {reason}") from None


def _find_stream(source: TapSpec, name: str) -> tuple[SchemaEvent, str]:
    """Find a stream by its name after stream maps. Return its schema, and its name in the tap.

    Stream maps may rename streams.

    Raises:
        UnsupportedError: The tap has no stream with this name.
    """
    streams = source.new().streams
    names: list[str] = []
    # Streams are rarely renamed, so the stream that has this name in the tap is tried first.
    for stream in sorted(streams.values(), key=lambda candidate: candidate.name != name):
        stream.selected = True  # even if the catalog deselects it
        for schema_event in get_schemas(stream):
            if name in {str(schema_event.stream), schema_event.stream.name}:
                return schema_event, stream.name
            names.append(schema_event.stream.name)
    raise UnsupportedError(
        f"The tap has no stream {name}.{suggest(name, names)} It has: {', '.join(sorted(names))}."
    )


def _parse_column_options(options: Mapping[str, str]) -> ColumnOptions:
    return ColumnOptions(
        plain_numbers=_parse_decimal(options.get("numbers_as_decimal")),
        oversized_as_text=_is_true(options, "oversized_numbers_as_text"),
        truncate_timestamps=_is_true(options, "truncate_timestamps"),
    )


def _parse_decimal(text: str | None) -> Decimal | None:
    if text is None:
        return None
    match = _DECIMAL.fullmatch(text)
    if match is None or not int(match[2]) <= int(match[1]) <= MAX_DIGITS:
        raise UnsupportedError(
            f"numbers_as_decimal is {text!r}: expected precision and scale, as in 38,9, with at"
            f" most {MAX_DIGITS} digits and no more places than digits."
        )
    return Decimal(int(match[1]), int(match[2]))


# -------------------------------------------------------------------------------- settings


def _merge_settings(
    option: str | None, class_settings: Mapping[str, Any] | None, tap: str
) -> dict[str, Any]:
    """Return the settings of the data source class, overridden by those of the option ``config``.

    Args:
        option: The value of the option: a JSON object, or the paths of settings files separated by
            commas. None if the option is not set.
        class_settings: The settings that were registered with the data source class, or None.
        tap: The name of the tap's class, such as ``tap_x.tap:TapX``.
    """
    if option is None:
        return dict(class_settings or {})
    tap_class = import_tap_class(tap)
    schema = tap_class._full_schema()  # noqa: SLF001  (every plugin's)
    if option.lstrip().startswith("{"):
        return {**(class_settings or {}), **_parse_inline_settings(option, schema)}
    config_input = ConfigInput.from_cli_args(*(path.strip() for path in option.split(",")))
    variables = {}
    if config_input.parse_env:
        variables = parse_environment_config(schema, tap_class._env_var_prefix)  # noqa: SLF001
    return {**(class_settings or {}), **config_input.config, **variables}


def _parse_inline_settings(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the value of the option ``config`` if it is a JSON object with settings.

    Raises:
        UnsupportedError: The text is not valid JSON, or contains a secret. Secrets are not allowed,
            because Spark shows options in its UI and its event log.
    """
    try:
        settings: dict[str, Any] = parse_json(text.encode())
    except ValueError:
        raise UnsupportedError("The option config is not valid JSON.") from None
    hide = make_redactor(settings, schema)
    if clean_document(settings, hide, by_name=False) != settings:
        raise UnsupportedError(
            "The option config contains a secret. Spark shows options in its UI and its event log:"
            " pass the path of a settings file instead, or ENV for environment variables, or"
            " register the tap with its settings (pyspark_tap.register_source)."
        )
    return settings


def _read_document(
    value: str | None, read: Callable[[str | bytes, str], dict[str, Any]], option: str
) -> dict[str, Any] | None:
    """Return the JSON object in the value of an option, or in the file that the value names.

    Return None if the option is not set. The function ``read`` parses a JSON text. Its second
    argument is the name of the option or file, for error messages.

    Raises:
        UnsupportedError: The file cannot be read.
    """
    if value is None:
        return None
    if value.lstrip().startswith("{"):
        return read(value, f"the option {option}")
    try:
        return read(read_at_most(Path(value), STATE_BYTES), value)
    except (OSError, InputTooLargeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnsupportedError(
            f"The option {option} names {value}, which cannot be read: {reason}."
        ) from None


# --------------------------------------------------------------------------------- options


def _parse_options(raw_options: Mapping[str, str]) -> dict[str, str]:
    options = {name.lower(): text for name, text in raw_options.items()}
    for name in options:
        if name not in OPTIONS:
            raise UnsupportedError(
                f"There is no option {name}.{suggest(name, OPTIONS)}"
                f" Options: {', '.join(sorted(OPTIONS))}."
            )
    return options


def _get_required(options: Mapping[str, str], name: str) -> str:
    if not options.get(name):
        raise UnsupportedError(f"The option {name} is missing: {OPTIONS[name]}.")
    return options[name]


def _get_count(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not (text.isdecimal() and int(text) > 0):
        raise UnsupportedError(f"The option {name} is {text!r}: expected a positive integer.")
    return int(text)


def _get_choice(options: Mapping[str, str], name: str, choices: Collection[str]) -> str | None:
    text = options.get(name)
    if text is not None and text not in choices:
        raise UnsupportedError(f"The option {name} is {text!r}: expected {' or '.join(choices)}.")
    return text


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return _get_choice(options, name, ("true", "false")) == "true"
