"""Subcommands of `target-spark`, such as `run`, `doctor`, `last-state` and `replay`."""
