"""Limits on what input may cost: memory, regular expressions, template and map expressions."""
