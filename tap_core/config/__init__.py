"""Settings of a plugin: read from files and environment variables, and validated."""
