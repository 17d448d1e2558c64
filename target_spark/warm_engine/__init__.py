"""The warm engine: a Spark of this machine that stays between runs, and the runs that use it."""
