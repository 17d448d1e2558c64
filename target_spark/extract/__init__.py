"""A tap's streams read on a Spark cluster."""
