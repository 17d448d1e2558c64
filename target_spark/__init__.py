"""A loader of Singer streams into Delta Lake and Parquet tables, through Apache Spark."""
