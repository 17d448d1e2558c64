"""Parsers of date-times and JSON paths."""
