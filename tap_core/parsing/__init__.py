"""Small parsers: datetimes (and their formatting), JSONPath, variable integers, command lines."""
