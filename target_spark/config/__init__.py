"""Settings of target-spark: JSON Schema, validation, and conversion to the options of a load."""
