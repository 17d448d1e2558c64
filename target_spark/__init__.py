"""Loader of Singer streams into Delta Lake, Iceberg and Parquet tables through Apache Spark."""

from target_spark.readers import Warehouse, WarehouseTable, open_warehouse

__all__ = ["Warehouse", "WarehouseTable", "open_warehouse"]
