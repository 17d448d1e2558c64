"""Spark sessions, the JVM, jars, and protection of a session's data from other users."""
