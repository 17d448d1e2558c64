"""Read access in Python to the tables that target-spark has loaded, without Spark or a JVM."""

from target_spark.readers.warehouse import Warehouse, WarehouseTable, open_warehouse

__all__ = ["Warehouse", "WarehouseTable", "open_warehouse"]
