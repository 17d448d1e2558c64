"""Entry point of `python -m target_spark`, which runs the same command as `target-spark`."""

from target_spark.target import TargetSpark

if __name__ == "__main__":
    TargetSpark.cli.main(prog_name=TargetSpark.name)
