"""JSON Schema, written in Python (``th.*``)."""
