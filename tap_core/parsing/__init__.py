"""Parsers of datetimes, JSONPath expressions and variable-length integers."""
