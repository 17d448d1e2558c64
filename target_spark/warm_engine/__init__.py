"""The engine: a Spark process that keeps running in the background, so that loads start faster."""
