"""Read access to the tables of a folder in Python, without Spark and without a JVM."""

from target_spark.readers.warehouse import Warehouse, WarehouseTable, open_warehouse

__all__ = ["Warehouse", "WarehouseTable", "open_warehouse"]
