"""Sources of settings: configuration files, environment variables, a ``.env`` file, defaults.

- Later files override earlier ones; the environment overrides files.
- A variable is named ``<PLUGIN>_<SETTING>``, upper case with ``-`` as ``_``, and is parsed by the
  setting's type in the schema. Names with a second underscore after the prefix (``TAP_X__SELECT``,
  set by Meltano) are ignored.
- One error reports all invalid files and settings, without values of secret settings.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from tap_core.config.dotenv_file import read_dotenv
from tap_core.config.similar_names import find_similar
from tap_core.exceptions import ConfigFileError, ConfigurationError, ConfigValidationError
from tap_core.limits.memory import (
    DOCUMENT_BYTES,
    InputTooLargeError,
    read_at_most,
)
from tap_core.redaction import is_secret
from tap_core.redaction.config import is_showable
from tap_core.schema.type_variants import get_types
from tap_core.singerlib.json import describe_json_error, describe_non_utf8, load_json
from tap_core.types import JsonSchema, StrPath

__all__ = [
    "ENV",
    "FALSY",
    "NO_SETTINGS",
    "TRUTHY",
    "ConfigInput",
    "EnvironmentConfig",
    "check_nesting",
    "coerce_text",
    "copy_config_schema",
    "deep_copy_config",
    "env_var_name",
    "fill_defaults",
    "get_json_types",
    "merge_missing_config_jsonschema",
    "parse_environment_config",
    "read_config_files",
    "read_environment",
]

ENV = "ENV"
"""Value of ``--config`` that requests settings from the environment instead of a file."""

NO_SETTINGS = "No settings were passed: name their file with --config FILE."
"""Sentence that ends an error message if ``--config`` is missing."""

TRUTHY = ("true", "1", "yes", "on")
FALSY = ("false", "0", "no", "off", "")

_MAX_LEVELS = 100
"""Maximum number of levels of objects and arrays in settings."""

logger: logging.Logger = logging.getLogger(__name__)


# Files


@dataclass
class ConfigInput:
    """Configuration from the ``--config`` options.

    Attributes:
        config: Settings in the files, merged.
        parse_env: True if an option is ``ENV``, which requests settings from environment variables.
        file: Path of the file if all settings came from a single file, otherwise None.
        args: Values of the options.
    """

    config: dict[str, Any] = field(default_factory=dict)
    parse_env: bool = False
    file: Path | None = field(default=None, compare=False)
    args: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def from_cli_args(cls, *args: StrPath) -> ConfigInput:
        """Read and merge the JSON files in ``args``; later files override earlier ones.

        The argument ``ENV`` is not a file: it requests settings from environment variables.

        Raises:
            ConfigFileError: One or more files cannot be read; the message names each.
        """
        files = [path for path in args if path != ENV]
        config = read_config_files(files)
        single = Path(files[0]).absolute() if len(args) == len(files) == 1 else None
        return cls(config, len(files) < len(args), single, tuple(map(str, args)))


def read_config_files(paths: Iterable[StrPath]) -> dict[str, Any]:
    """Return the merged settings of JSON files; later files replace top-level settings.

    Raises:
        ConfigFileError: One or more files are missing, not JSON or not a JSON object;
            its ``errors`` has one sentence per file.
    """
    merged: dict[str, Any] = {}
    faults: list[str] = []
    for path in paths:
        if not str(path):
            faults.append("The path of a configuration file is empty: use --config FILE")
            continue
        if str(path).lstrip().startswith("{") and not os.path.isfile(path):  # noqa: PTH113  (accepts long texts)
            faults.append(
                "--config has JSON, which may contain secrets, instead of the path of a file:"
                " write the settings to a file and use --config FILE"
            )
            continue
        try:
            merged.update(_read_file(Path(path)))
        except ConfigFileError as error:
            faults.append(str(error))
    if faults:
        raise ConfigFileError("; ".join(faults), errors=faults)
    return merged


def _read_file(path: Path) -> dict[str, Any]:
    """Return the JSON object in a configuration file, or raise ConfigFileError."""
    try:
        document = load_json(read_at_most(path, DOCUMENT_BYTES).decode("utf-8-sig"))
    except FileNotFoundError:
        raise ConfigFileError(f"Configuration file '{path}' does not exist") from None
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
        raise ConfigFileError(f"Configuration file '{path}' {reason}") from None
    except InputTooLargeError as error:
        raise ConfigFileError(f"Configuration file '{path}' cannot be read: {error}") from None
    except json.JSONDecodeError as error:
        reason = f"is not JSON: {describe_json_error(error)}"
        raise ConfigFileError(f"Configuration file '{path}' {reason}") from None
    except UnicodeDecodeError as error:
        reason = f"is {describe_non_utf8(error.object)}"
        raise ConfigFileError(f"Configuration file '{path}' {reason}") from None
    if not isinstance(document, dict):
        reason = f"holds {_describe_type(document)} where a JSON object is needed"
        raise ConfigFileError(f"Configuration file '{path}' {reason}")
    return document


def _describe_type(value: Any) -> str:
    """Return the JSON type of a value that is not an object, such as ``an array``, for messages."""
    kinds = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")


# Environment


@dataclass(frozen=True)
class EnvironmentConfig:
    """Settings from environment variables, by setting name.

    ``values`` contains the values of valid settings, ``faults`` the error messages of invalid ones.
    """

    values: dict[str, Any]
    faults: dict[str, str]


def env_var_name(prefix: str, setting: str) -> str:
    """Return the name of a setting's environment variable.

    Example: prefix ``TAP_X_`` and setting ``api-url`` -> ``TAP_X_API_URL``.
    """
    return prefix + setting.upper().replace("-", "_")


def read_environment(
    config_schema: JsonSchema,
    prefix: str,
    dotenv_path: StrPath | None = None,
) -> EnvironmentConfig:
    """Return the settings in environment variables, converted to the types of the schema.

    ``os.environ`` is not changed.

    Args:
        config_schema: JSON Schema of the settings.
        prefix: Prefix of the variable names, such as ``TAP_X_``.
        dotenv_path: Path of a ``.env`` file with variables that the environment lacks; by default
            :func:`tap_core.config.dotenv_file.read_dotenv` locates the file.
    """
    variables = {**read_dotenv(prefix, dotenv_path), **os.environ}
    values: dict[str, Any] = {}
    faults: dict[str, str] = {}
    for setting, schema in config_schema.get("properties", {}).items():
        variable = env_var_name(prefix, setting)
        text = variables.get(variable)
        if text is None or variable.startswith(f"{prefix}_"):
            continue
        logger.info("Parsing '%s' config from env variable '%s'.", setting, variable)
        try:
            values[setting] = coerce_text(text, schema)
        except ValueError as error:
            is_hidden = is_secret(setting, schema) or not is_showable(text)
            actual = "" if is_hidden else f" (it is {text!r})"
            faults[setting] = f"{setting}: variable {variable} must be {error}{actual}"
    _warn_of_misspelled_variables(variables, config_schema.get("properties", {}), prefix)
    return EnvironmentConfig(values, faults)


def _warn_of_misspelled_variables(
    variables: Mapping[str, str], settings: Iterable[str], prefix: str
) -> None:
    """Log a warning for each environment variable whose name is probably misspelled.

    Such a name starts with ``prefix``, but no setting has this variable. It resembles the variable
    of a setting, which is not set. The variable for the log level is never reported.
    """
    known = {env_var_name("", setting) for setting in settings}
    unset = [name for name in known if prefix + name not in variables]
    names = {name.removeprefix(prefix) for name in variables if name.startswith(prefix)}
    for name in sorted(names - known - {"LOGLEVEL"}):
        similar = None if name.startswith("_") else find_similar(name, unset)
        if similar is not None:
            logger.warning(
                "Variable '%s' is not a setting of this plugin. Did you mean '%s'?",
                prefix + name,
                prefix + similar,
            )


def parse_environment_config(
    config_schema: JsonSchema,
    prefix: str,
    dotenv_path: StrPath | None = None,
) -> dict[str, Any]:
    """Return the settings in environment variables, converted to the types in ``config_schema``.

    ``prefix`` is the prefix of the variable names, such as ``TAP_X_``. ``dotenv_path`` is the path
    of a ``.env`` file; see :func:`read_environment`.

    Raises:
        ConfigValidationError: The text of a variable does not have the type of its setting.
    """
    environment = read_environment(config_schema, prefix, dotenv_path)
    if environment.faults:
        errors = list(environment.faults.values())
        raise ConfigValidationError("; ".join(errors), errors=errors, schema=config_schema)
    return environment.values


def coerce_text(text: str, schema: JsonSchema) -> Any:
    """Convert the text of an environment variable to a JSON type that the setting's schema allows.

    Several types are tried in the order integer, boolean, array, object, number, string. The type
    number is skipped if strings are allowed, so that the text keeps all its digits.

    Raises:
        ValueError: The text cannot be converted; the message states the expected types.
    """
    types = get_json_types(schema)
    expected: list[str] = []
    for kind, read in _PARSERS.items():
        if kind not in types or (kind == "number" and "string" in types):
            continue
        try:
            return read(text, schema)
        except ValueError as error:
            expected.append(str(error))
    if expected and "string" not in types:
        raise ValueError(" or ".join(expected))
    return text


def get_json_types(schema: Mapping[str, Any]) -> set[str]:
    """Return all JSON types that a schema and its alternatives (``anyOf`` etc.) name.

    The set is empty if no schema names a type.
    """
    types = set(get_types(schema))
    for keyword in ("anyOf", "oneOf", "allOf"):
        for branch in schema.get(keyword, ()):
            if isinstance(branch, dict):
                types |= get_json_types(branch)
    return types


def _parse_integer(text: str, _schema: JsonSchema) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("an integer") from None


def _parse_number(text: str, _schema: JsonSchema) -> int | Decimal:
    try:
        return int(text)
    except ValueError:
        return _parse_fraction(text)


def _parse_fraction(text: str) -> Decimal:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        raise ValueError("a number") from None
    if number.is_finite():
        return number
    raise ValueError("a number")


def _parse_boolean(text: str, _schema: JsonSchema) -> bool:
    word = text.strip().lower()
    if word in TRUTHY or word in FALSY:
        return word in TRUTHY
    raise ValueError("one of true, 1, yes, on, false, 0, no, off")


def _parse_array(text: str, schema: JsonSchema) -> list[Any]:
    """Parse a JSON array from an environment variable.

    For arrays of strings, the deprecated format ``x,y,z`` is accepted too.

    Raises:
        ValueError: The text is not an array.
    """
    try:
        document = load_json(text)
    except json.JSONDecodeError:
        document = None
    if isinstance(document, list):
        return document
    if document is None and _allows_text_items(schema):
        logger.warning(
            "Parsing array of the form 'x,y,z', which is deprecated: write a JSON array.",
        )
        return text.split(",")
    raise ValueError("a JSON array")


def _allows_text_items(schema: JsonSchema) -> bool:
    items = schema.get("items")
    return isinstance(items, dict) and "string" in get_json_types(items)


def _parse_object(text: str, _schema: JsonSchema) -> dict[str, Any]:
    try:
        document = load_json(text)
    except json.JSONDecodeError:
        document = None
    if isinstance(document, dict):
        return document
    raise ValueError("a JSON object")


_PARSERS: dict[str, Callable[[str, JsonSchema], Any]] = {
    "integer": _parse_integer,
    "boolean": _parse_boolean,
    "array": _parse_array,
    "object": _parse_object,
    "number": _parse_number,
}


# Depth, defaults, built-in settings


def check_nesting(config: Mapping[str, Any]) -> None:
    """Raise ConfigValidationError if settings have more than 100 levels of objects and arrays.

    Copying, validation and redaction of deeper settings would exceed Python's recursion limit.
    """
    errors = [
        f"{name}: settings have at most {_MAX_LEVELS} levels of objects and arrays."
        for name, value in config.items()
        if _is_nested_too_deeply(value)
    ]
    if errors:
        raise ConfigValidationError(" ".join(errors), errors=errors)


def _is_nested_too_deeply(setting: Any) -> bool:
    containers = [setting] if isinstance(setting, (Mapping, list)) else []
    depth = 1  # the configuration is the first level
    while containers and depth < _MAX_LEVELS:
        containers = [
            inner
            for outer in containers
            for inner in (outer.values() if isinstance(outer, Mapping) else outer)
            if isinstance(inner, (Mapping, list))
        ]
        depth += 1
    return bool(containers)


def deep_copy_config(value: Any) -> Any:
    """Return a deep copy of a setting's value; mappings of any type become dicts."""
    if isinstance(value, Mapping):
        return {key: deep_copy_config(item) for key, item in value.items()}
    if isinstance(value, list):
        return [deep_copy_config(item) for item in value]
    return value


def fill_defaults(config: Any, schema: JsonSchema) -> None:
    """Set missing settings of a configuration to their defaults, in place.

    This includes settings inside existing objects and arrays. A missing object is added only if
    the object itself has a default.
    """
    if isinstance(config, dict):
        for name, definition in schema.get("properties", {}).items():
            if isinstance(definition, dict):
                _fill_setting(config, name, definition)
        for branch in schema.get("allOf", ()):
            fill_defaults(config, branch)
    elif isinstance(config, list) and isinstance(schema.get("items"), dict):
        for item in config:
            fill_defaults(item, schema["items"])


def _fill_setting(config: dict[str, Any], name: str, schema: JsonSchema) -> None:
    """Set the missing setting ``name``, and missing settings inside it, to their defaults."""
    if "default" in schema:
        config.setdefault(name, deep_copy_config(schema["default"]))
    if name in config:
        fill_defaults(config[name], schema)


def copy_config_schema(plugin: Any) -> JsonSchema:
    """Return a deep copy of the config schema of a plugin class.

    Raises:
        ConfigurationError: The schema is not a dict.
    """
    schema: JsonSchema = plugin.config_jsonschema
    if hasattr(schema, "to_dict"):
        raise ConfigurationError(
            f"{plugin.__name__}.config_jsonschema is a {type(schema).__name__}, and not a dict:"
            " append .to_dict() to it."
        )
    copy: JsonSchema = deep_copy_config(schema)
    return copy


def merge_missing_config_jsonschema(
    source_jsonschema: JsonSchema,
    target_jsonschema: JsonSchema,
) -> None:
    """Add the settings of the source schema to the target schema, in place.

    Settings that the target schema already has are kept.
    """
    settings = target_jsonschema.setdefault("properties", {})
    for name, schema in source_jsonschema.get("properties", {}).items():
        settings.setdefault(name, deep_copy_config(schema))
