"""Settings of a plugin: reading from files and environment variables, and validation."""
