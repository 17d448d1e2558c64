"""PyAirbyte reads a tap into its cache, twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.airbyte.pyairbyte import ask_pyairbyte, needs_pyairbyte, write_executable
from tests.airbyte.running import TAP_SHOP, TOKEN

pytestmark = [pytest.mark.peer, pytest.mark.slow, pytest.mark.thorough, needs_pyairbyte]

FULL = {"colours": 3, "shops": 2}


def test_pyairbyte_reads_a_tap_and_then_only_new_records(tmp_path: Path) -> None:
    """Check, discover and read; the second read gets the state of the first (RD7, ST9)."""
    answer = ask_pyairbyte(
        tmp_path,
        source=write_executable(tmp_path / "tap-shop", TAP_SHOP),
        cache=str(tmp_path / "cache.duckdb"),
        configs=[{"token": TOKEN, "days": 5}, {"token": TOKEN, "days": 7}],
    )
    assert answer["streams"] == ["colours", "orders", "readings", "shops", "visits"]
    assert answer["secrets"] == ["token"]
    first, second = answer["read"]
    assert first["counted"] == {**FULL, "orders": 5, "readings": 15, "visits": 10}
    # A cursor is inclusive: the row at each bookmark is read again.
    assert second["counted"] == {**FULL, "orders": 3, "readings": 9, "visits": 6}
    row_counts = {name: len(rows) for name, rows in second["rows"].items()}
    assert row_counts == {**FULL, "orders": 7, "readings": 21, "visits": 14}
    assert {row["total"] for row in second["rows"]["orders"]} >= {"1.500000000", "10.500000000"}
    assert set(second["states"]) >= {"orders", "readings", "visits"}
    assert first["states"]["orders"] != second["states"]["orders"]
