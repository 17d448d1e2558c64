"""The task of a Databricks job: run target-spark from an environment of its own on the driver."""

from __future__ import annotations

import os
import subprocess
import sys

# The cluster's variables name its own Spark, whose versions are not those of target-spark.
CLUSTER = ("PYSPARK_", "PYTHON", "SPARK_")
TARGET_SPARK = "/local_disk0/flights/bin/target-spark"

if __name__ == "__main__":
    environment = {name: os.environ[name] for name in os.environ if not name.startswith(CLUSTER)}
    subprocess.run([TARGET_SPARK, "run", *sys.argv[1:]], env=environment, check=True)
