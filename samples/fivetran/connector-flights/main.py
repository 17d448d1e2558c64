"""Entry point of the sample tap as a single executable built by PyInstaller."""

from __future__ import annotations

from tap_flights.tap import TapFlights

if __name__ == "__main__":
    TapFlights.cli()
