"""Loader of Singer streams into Delta Lake, Iceberg and Parquet tables through Apache Spark."""

from __future__ import annotations

from target_spark.readers import Warehouse, WarehouseTable, open_warehouse

__all__ = ["Warehouse", "WarehouseTable", "open_warehouse"]


def __getattr__(name: str) -> str:
    """Return the version of the installed distribution `tap-core-sdk` as ``__version__``.

    Python calls this for a module attribute that is not defined, so the version is looked up only
    when it is used.

    Raises:
        AttributeError: ``name`` is not ``__version__``.
    """
    if name == "__version__":
        from importlib import metadata

        return metadata.version("tap-core-sdk")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
