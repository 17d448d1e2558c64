"""Subcommands of target-spark: doctor, last-state and replay."""
