"""Limits on the memory and time that untrusted documents, patterns and expressions may take."""
