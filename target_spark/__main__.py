"""Entry point of `python -m target_spark`, for when the script is not on the path."""

from target_spark.target import TargetSpark

if __name__ == "__main__":
    TargetSpark.cli.main(prog_name=TargetSpark.name)
