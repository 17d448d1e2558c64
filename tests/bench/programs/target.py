"""The command `target-spark` of this project."""

from __future__ import annotations

from target_spark.target import TargetSpark

if __name__ == "__main__":
    TargetSpark.cli()
