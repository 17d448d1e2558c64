"""Settings of a plugin: read from files and variables, and validated."""
