"""Settings of target-spark, their validation, and the options they become."""
