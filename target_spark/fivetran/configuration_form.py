"""Configuration form and connection tests that Fivetran shows to the user.

The form contains only the settings that locate the tables. A configuration may contain further
settings that `allowed_settings` permits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tap_core.exceptions import ConfigurationError
from tap_core.types import JsonSchema
from target_spark.config.options import LoadOptions
from target_spark.config.settings import SCHEMA
from target_spark.errors import UnsupportedError

__all__ = ["FORM", "TESTS", "check_format", "parse_settings"]

_FORM_SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "path": {
        "title": "Path",
        "type": "string",
        "description": "Location of the tables: a folder, or an address that Spark can write to"
        " (s3a://..., abfss://..., hdfs://...). With a catalog, new tables have their files below"
        " it.",
        "examples": ["s3a://my-bucket/warehouse"],
    },
    "format": {
        "title": "Table format",
        "type": "string",
        "description": "Delta Lake or Apache Iceberg.",
        "enum": ["delta", "iceberg"],
    },
    "catalog": {
        "title": "Catalog",
        "description": "The Spark catalog of the tables. A Fivetran schema is a database in it."
        " Leave it empty for tables that are found by their path.",
    },
    "spark": {
        "title": "Spark settings",
        "description": "Spark settings as a JSON object: keys of the storage and the catalog,"
        " spark.driver.memory. Others need the operator's permission.",
        "secret": True,
    },
}
"""Settings that the form shows, with titles and descriptions for the user."""

FORM: Final[JsonSchema] = {
    "type": "object",
    "required": ["path", "format"],
    "properties": {
        name: {**SCHEMA["properties"][name], **shown} for name, shown in _FORM_SETTINGS.items()
    },
}
"""JSON Schema of the configuration form.

A form cannot require one of two fields. Therefore it requires the path, which every table can have.
A configuration without a path is valid if its catalog defines the location of files.
"""

TESTS: Final[Mapping[str, str]] = {
    "settings": "Check the settings, Java and the libraries of the table format",
    "storage": "Create, write, read and remove a table",
}
"""Connection tests that Fivetran runs when a user sets up the destination: labels by name."""

_IGNORED_SETTINGS: Final = {"report": None, "dry_run": None}
"""Settings that a server ignores. They are set to None before the validation."""


def parse_settings(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the configuration that a gRPC call of Fivetran sends to settings of the target.

    The settings ``report`` and ``dry_run`` are set to None, because a server ignores them.

    Raises:
        ConfigurationError: The setting ``spark`` is a text that is not a JSON object. The message
            does not contain the text.
    """
    if isinstance(configuration.get("spark"), str):
        raise ConfigurationError(
            "spark: this is not a JSON object. Set the Spark settings by name, such as"
            ' {"spark.driver.memory": "2g"}.'
        )
    return {**configuration, **_IGNORED_SETTINGS}


def check_format(options: LoadOptions) -> None:
    """Check that the configured table format supports upserts by key, which Fivetran needs.

    Raises:
        UnsupportedError: The format is neither Delta nor Iceberg.
    """
    if not options.can_upsert:
        raise UnsupportedError(
            f"Tables of format {options.format} cannot be a destination of Fivetran, which"
            " replaces rows by key. Set format to delta or iceberg."
        )
