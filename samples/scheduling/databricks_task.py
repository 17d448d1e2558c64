"""Task of a Databricks job: run target-spark from a separate environment on the driver."""

from __future__ import annotations

import os
import subprocess
import sys

# These variables select the cluster's Spark, whose version differs from that of target-spark.
CLUSTER = ("PYSPARK_", "PYTHON", "SPARK_")
TARGET_SPARK = "/local_disk0/flights/bin/target-spark"

if __name__ == "__main__":
    environment = {name: os.environ[name] for name in os.environ if not name.startswith(CLUSTER)}
    subprocess.run([TARGET_SPARK, "run", *sys.argv[1:]], env=environment, check=True)
