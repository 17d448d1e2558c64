"""Delta tables: writer, commits with and without Spark, table layout, and maintenance."""
