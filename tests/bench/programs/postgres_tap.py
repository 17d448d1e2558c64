"""The tap for PostgreSQL that is installed: the sample of this project or MeltanoLabs' tap."""

from __future__ import annotations

from tap_postgres.tap import TapPostgres

__all__: list[str] = []

if __name__ == "__main__":
    TapPostgres.cli()
