"""What all rooms' tests may ask for."""

from __future__ import annotations

from tests.postgres import postgres as postgres
