"""Settings of target-spark, their validation, and the options made from them."""
