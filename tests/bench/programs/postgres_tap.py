"""The tap of PostgreSQL that is installed: ours or the peer's, by the same names."""

from __future__ import annotations

from tap_postgres.tap import TapPostgres

__all__: list[str] = []

if __name__ == "__main__":
    TapPostgres.cli()
