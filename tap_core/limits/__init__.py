"""Limits on the cost of input: memory, regular expressions, template and map expressions."""
