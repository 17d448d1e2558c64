"""Sync engine: turns the plan of each stream into a sequence of events."""
