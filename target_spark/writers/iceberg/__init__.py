"""Iceberg tables: writer, snapshots, layout, maintenance."""
