"""Subcommands of target-spark: doctor, last-state, replay."""
