"""`python -m target_spark`: the command, where its script is not on the path.

Rules of the room: nothing but the call.
"""

from target_spark.target import TargetSpark

if __name__ == "__main__":
    TargetSpark.cli.main(prog_name=TargetSpark.name)
