"""Iceberg tables: writer, catalogs, snapshots, table layout, and maintenance."""
