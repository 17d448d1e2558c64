"""Loader of Singer streams into Delta Lake, Iceberg and Parquet tables through Apache Spark."""
