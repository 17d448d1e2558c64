"""Reading of a tap's streams with Spark: `target-spark run` and `spark.read.format("tap")`."""
