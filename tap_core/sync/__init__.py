"""Sync engine: reads the records of each stream, and writes events such as schemas and rows."""
