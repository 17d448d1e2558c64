"""What Fivetran asks the user of a destination, and which tests it runs with the answers.

Pure. The form shows the few settings without which no table can be found; the configuration may
have the other settings that `allowed_settings` names, too.
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

_ASKED: Final[Mapping[str, Mapping[str, Any]]] = {
    "path": {
        "title": "Path",
        "type": "string",
        "description": "Where the tables lie: a folder, or an address that Spark can write"
        " (s3a://..., abfss://..., hdfs://...). With a catalog, the tables that it gets have their"
        " files below it.",
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
        "description": "The catalog of Spark that has the tables. A schema of Fivetran is a"
        " database in it. Leave it empty for tables that are found by their path.",
    },
    "spark": {
        "title": "Spark settings",
        "description": "Settings of Spark as JSON, by their names: keys of the storage,"
        " the catalog, spark.driver.memory. Others need the operator's leave.",
        "secret": True,
    },
}
"""The settings that the form shows, with the words that people who set it up need."""

FORM: Final[JsonSchema] = {
    "type": "object",
    "required": ["path", "format"],
    "properties": {name: {**SCHEMA["properties"][name], **own} for name, own in _ASKED.items()},
}
"""The settings that the form asks for, as a JSON Schema.

A form cannot require one of two fields, so it requires the path, which all tables can have. A
configuration may do without where its catalog says where files are.
"""

TESTS: Final[Mapping[str, str]] = {
    "settings": "The settings, Java and the libraries of the table format",
    "storage": "Making, writing, reading and removing a table",
}
"""The tests by name, with what people are told of them."""

_OURS: Final = {"report": None, "dry_run": None}
"""Settings of a load that a server has no use for."""


def parse_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a call: what the form has, without what only a load can use.

    Raises:
        ConfigurationError: the settings of Spark are no JSON; the keys in them are not shown.
    """
    if isinstance(given.get("spark"), str):
        raise ConfigurationError(
            "spark: this is no JSON object. Give the settings of Spark by their names, such as"
            ' {"spark.driver.memory": "2g"}.'
        )
    return {**given, **_OURS}


def check_format(options: LoadOptions) -> None:
    """Refuse tables in which a row cannot be replaced.

    Raises:
        UnsupportedError: the format is one of those.
    """
    if not options.can_upsert:
        raise UnsupportedError(
            f"Tables of format {options.format} cannot be a destination of Fivetran, which"
            " replaces rows by key. Set format to delta or iceberg."
        )
