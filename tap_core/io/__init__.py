"""Input and output of bytes: standard input, standard output, JSON lines, private files."""
