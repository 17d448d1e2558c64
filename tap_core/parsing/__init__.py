"""Small parsers: datetimes, JSONPath expressions, variable-length integers, command lines."""
