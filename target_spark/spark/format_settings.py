"""Spark settings that enable a table format: SQL extensions and catalogs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["FORMAT_SETTINGS", "get_format_settings"]

_EXTENSIONS: Final = "spark.sql.extensions"
FORMAT_SETTINGS: Mapping[str, Mapping[str, str]] = {
    "delta": {
        _EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {
        _EXTENSIONS: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    },
}
"""Spark settings that enable a table format, by format. Catalogs for Iceberg tables at paths are
not included: they are configured when such a table is written."""

_CATALOG: Final = re.compile(r"spark\.sql\.catalog\.[^.]+")
_ICEBERG_CATALOGS: Final = frozenset(
    {
        "org.apache.iceberg.spark.SparkCatalog",
        "org.apache.iceberg.spark.SparkSessionCatalog",
    }
)


def get_format_settings(table_format: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the Spark settings for a table format's SQL extensions and catalogs.

    The extensions and catalogs in ``conf``, the user's settings, are kept. The user's Iceberg
    catalogs get no cache, because several sessions write the same tables.
    """
    out = {
        key: conf.get(key, value) for key, value in FORMAT_SETTINGS.get(table_format, {}).items()
    }
    if _EXTENSIONS in out:
        extension, users = FORMAT_SETTINGS[table_format][_EXTENSIONS], conf.get(_EXTENSIONS)
        out[_EXTENSIONS] = f"{extension},{users}" if users else extension
    for key, value in conf.items():
        if _CATALOG.fullmatch(key) and value in _ICEBERG_CATALOGS:
            # Each session has a separate cache, but several sessions write the same table.
            cache = f"{key}.cache-enabled"
            out[cache] = conf.get(cache, "false")
    return out
