"""The engine: a Spark process that keeps running in the background and is shared by runs."""
