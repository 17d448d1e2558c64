"""Reading a tap's streams on Spark: `target-spark run` and `spark.read.format("tap")`."""
