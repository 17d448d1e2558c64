"""Bytes in and out: standard input, standard output, lines of JSON, private files."""
