"""Parsers of datetimes, JSON paths and variable-length integers."""
