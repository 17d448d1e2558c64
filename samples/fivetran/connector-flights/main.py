"""What PyInstaller makes one executable of: the sample tap, as its command is."""

from __future__ import annotations

from tap_flights.tap import TapFlights

if __name__ == "__main__":
    TapFlights.cli()
