"""Spark itself: sessions, the JVM, jars, and who may reach a session's data."""
