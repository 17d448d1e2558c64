"""Download the jars of Delta Lake, Iceberg and S3 into the Python environment.

Their versions are those for the installed Spark, and each jar is verified by its SHA-256. Runs in
this environment use them and need no network.
"""

from importlib.metadata import version

from target_spark.spark.jars import format_conf, with_fetched
from target_spark.spark.jvm import share_folder, spark_home

spark_version = version("pyspark")
settings = {"spark.jars.ivy": str(share_folder() / "ivy")}
for table_format in ("delta", "iceberg"):
    conf = format_conf(table_format, settings, (), spark_version, ("s3a://any-bucket",))
    with_fetched(settings | conf, spark_home("local[1]", spark_version))
