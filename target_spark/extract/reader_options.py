"""What somebody asks of one stream of a tap, to have its rows as a frame.

Rules of the room: everything is decided on the driver, from texts: options are texts that Spark
shows in its plans, its UI and its event log. So no secret may be among them; settings come from
files, from the environment, or with a class that was registered, and from then on travel inside
of what Spark hands to its workers. Columns are those that a table would get.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tap_core.config.loading import ConfigInput, parse_environment_config
from tap_core.config.similar_names import suggest
from tap_core.events import SchemaEvent
from tap_core.exceptions import ConfigurationError
from tap_core.limits.memory import STATE_BYTES, InputTooLargeError, read_at_most
from tap_core.protocols.singer.catalog_file import parse_catalog
from tap_core.redaction import make_redactor
from tap_core.state.reader import parse_json, read_state
from tap_core.sync.plan import get_schemas
from target_spark.columns import ColumnOptions, Decimal, TableSchema, schema_from_json_schema
from target_spark.errors import FrameError, TargetSparkError, UnsupportedError
from target_spark.extract.tap_factory import TapSpec, import_tap_class
from target_spark.loader.stream_context import resolve_schema

if TYPE_CHECKING:
    from tap_core.tap_base import Tap

__all__ = ["OPTIONS", "ReadOptions", "parse_options", "single_stream"]

OPTIONS: Final[Mapping[str, str]] = {
    "tap": "the tap's class, as in tap_x:TapX",
    "stream": "the stream that is read",
    "config": "files of settings, with commas between them; ENV asks for the environment",
    "catalog": "a catalog, or the file that has it",
    "state": "a state, or the file that has it, to go on from",
    "misfits": "error (the default), or null for values that do not fit their columns",
    "tries": "how often a context is read before it has failed; 3 unless given",
    "partitions": "at most so many partitions; one for each context unless given",
    "numbers_as_decimal": "the digits of numbers without multipleOf, as in 38,9",
    "oversized_numbers_as_text": "whether numbers of more than 38 digits are text",
    "truncate_timestamps": "whether what is beyond microseconds is cut off",
}

_TRIES: Final = 3
_DIGITS: Final = re.compile(r"([1-9]\d?),(\d\d?)")


@dataclass(frozen=True, slots=True, repr=False)
class ReadOptions:
    """One stream of a tap, and how its rows are read.

    ``stream`` is the tap's own name for it, ``name`` the one under which its rows go out: stream
    maps may change it. With ``nulls`` a value that does not fit is null.
    """

    source: TapSpec
    stream: str
    name: str
    layout: TableSchema
    state: Mapping[str, Any]
    nulls: bool = False
    tries: int = _TRIES
    partitions: int | None = None

    def tap(self) -> Tap:
        """Make the tap, with the state, to read this stream alone."""
        return single_stream(self.source.new(self.state), self.stream)

    def told(self, error: BaseException) -> str:
        """Return what to say of an error, without the secrets of the settings."""
        return _told(self.source, error)


def single_stream(tap: Tap, stream: str) -> Tap:
    """Let a tap have selected this stream and no other; return it."""
    for name, each in tap.streams.items():
        if each.selected != (name == stream):
            each.selected = name == stream
    return tap


def parse_options(given: Mapping[str, str], config: Mapping[str, Any] | None = None) -> ReadOptions:
    """Read options; ``config`` are settings that came with a class that was registered.

    The tap is made, and asked for its streams.

    Raises:
        UnsupportedError: an option is not known, is missing, or says what cannot be.
        ConfigurationError: the tap, its settings, its catalog or its state cannot be used.
    """
    options = _known(given)
    tap, stream = _needed(options, "tap"), _needed(options, "stream")
    source = TapSpec(
        id=uuid.uuid4().hex,
        tap=tap,
        config=_settings(options.get("config"), config, tap),
        catalog=_document(options.get("catalog"), parse_catalog, "catalog"),
    )
    state = _document(options.get("state"), read_state, "state") or {}
    described, origin = _asked(source, stream)
    layout = schema_from_json_schema(
        resolve_schema(described), described.keys, _column_options(options)
    )
    return ReadOptions(
        source,
        origin,
        stream,
        layout,
        state,
        nulls=_get_choice(options, "misfits", ("error", "null")) == "null",
        tries=_count(options, "tries") or _TRIES,
        partitions=_count(options, "partitions"),
    )


# ------------------------------------------------------------------------------ the stream


def _asked(source: TapSpec, name: str) -> tuple[SchemaEvent, str]:
    try:
        return _described(source, name)
    except (TargetSparkError, ConfigurationError):
        raise
    except Exception as error:  # noqa: BLE001  it is told, without secrets
        why = _told(source, error)
        raise FrameError(f"The tap {source.tap} cannot be asked for its streams: {why}") from None


def _told(source: TapSpec, error: BaseException) -> str:
    schema = import_tap_class(source.tap)._full_schema()  # noqa: SLF001  (every plugin's)
    return make_redactor(source.config, schema)(f"{type(error).__name__}: {error}")


def _described(source: TapSpec, name: str) -> tuple[SchemaEvent, str]:
    """Return how the rows of a stream are described, and what the tap itself calls it.

    Stream maps may give it another name than that, and one stream several.
    """
    streams = source.new().streams
    known: list[str] = []
    for stream in sorted(streams.values(), key=lambda each: each.name != name):
        stream.selected = True
        for described in get_schemas(stream):
            if name in {str(described.stream), described.stream.name}:
                return described, stream.name
            known.append(described.stream.name)
    raise UnsupportedError(
        f"The tap has no stream {name}.{suggest(name, known)} It has: {', '.join(sorted(known))}."
    )


def _column_options(options: Mapping[str, str]) -> ColumnOptions:
    digits = options.get("numbers_as_decimal")
    found = None if digits is None else _DIGITS.fullmatch(digits)
    if digits is not None and found is None:
        raise UnsupportedError(f"numbers_as_decimal is {digits!r}: say the digits, as in 38,9.")
    return ColumnOptions(
        plain_numbers=None if found is None else Decimal(int(found[1]), int(found[2])),
        oversized_as_text=_is_true(options, "oversized_numbers_as_text"),
        cut_timestamps=_is_true(options, "truncate_timestamps"),
    )


# -------------------------------------------------------------------------------- settings


def _settings(asked: str | None, own: Mapping[str, Any] | None, tap: str) -> dict[str, Any]:
    """Return the settings that an option asks for, over those that came with the class."""
    if asked is None:
        return dict(own or {})
    kind = import_tap_class(tap)
    schema = kind._full_schema()  # noqa: SLF001  (every plugin's)
    if asked.lstrip().startswith("{"):
        return {**(own or {}), **_inline(asked, schema)}
    given = ConfigInput.from_cli_args(*(place.strip() for place in asked.split(",")))
    variables = {}
    if given.parse_env:
        variables = parse_environment_config(schema, kind._env_var_prefix)  # noqa: SLF001
    return {**(own or {}), **given.config, **variables}


def _inline(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Read settings that stand in an option, where everybody can see them."""
    try:
        found = parse_json(text.encode())
    except ValueError:
        raise UnsupportedError("The option config begins as JSON, and is none.") from None
    hide = make_redactor(found, schema)
    if any(hide(value) != value for value in _texts(found)):
        raise UnsupportedError(
            "The option config holds a secret. Spark shows options in its UI and its event log:"
            " name a file of settings instead, or ENV for those of the environment, or register"
            " the tap with its settings (pyspark_tap.tap_source)."
        )
    settings: dict[str, Any] = found
    return settings


def _texts(value: Any) -> Iterator[str]:
    """Yield every text of a JSON document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for inner in value.values() for text in _texts(inner))
    elif isinstance(value, list):
        yield from (text for inner in value for text in _texts(inner))


def _document(
    given: str | None, read: Callable[[str, str], dict[str, Any]], option: str
) -> dict[str, Any] | None:
    """Read a document that an option holds, or the file of it that the option names."""
    if given is None:
        return None
    if given.lstrip().startswith("{"):
        return read(given, f"the option {option}")
    try:
        return read(read_at_most(Path(given), STATE_BYTES).decode("utf-8-sig"), given)
    except (OSError, InputTooLargeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UnsupportedError(
            f"The option {option} names {given}, which cannot be read: {why}."
        ) from None


# --------------------------------------------------------------------------------- options


def _known(given: Mapping[str, str]) -> dict[str, str]:
    options = {name.lower(): text for name, text in given.items()}
    for name in options:
        if name not in OPTIONS:
            raise UnsupportedError(
                f"There is no option {name}.{suggest(name, OPTIONS)}"
                f" There are: {', '.join(sorted(OPTIONS))}."
            )
    return options


def _needed(options: Mapping[str, str], name: str) -> str:
    if not options.get(name):
        raise UnsupportedError(f"The option {name} is missing: {OPTIONS[name]}.")
    return options[name]


def _count(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not (text.isdecimal() and int(text) > 0):
        raise UnsupportedError(f"The option {name} is {text!r}, and has to be a number from 1 on.")
    return int(text)


def _get_choice(options: Mapping[str, str], name: str, words: Collection[str]) -> str | None:
    text = options.get(name)
    if text is not None and text not in words:
        raise UnsupportedError(f"The option {name} is {text!r}: it may be {' or '.join(words)}.")
    return text


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return _get_choice(options, name, ("true", "false")) == "true"
