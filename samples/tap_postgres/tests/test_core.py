"""The SDK's standard tests of this tap, with the tables of a database that you choose.

Run them with `TAP_POSTGRES_SQLALCHEMY_URL=postgresql://… pytest samples/tap_postgres/tests`.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from tap_core.testing import SuiteConfig, get_tap_test_class
from tap_postgres.tap import TapPostgres

__all__ = ["TestTapPostgres"]

VARIABLE = "TAP_POSTGRES_SQLALCHEMY_URL"
URL = os.environ.get(VARIABLE)
if not URL:
    pytest.skip(f"Set {VARIABLE} to the URL of a database.", allow_module_level=True)
CONFIG = {"sqlalchemy_url": URL}


def select_all_streams() -> dict[str, Any]:
    """Return the tap's catalog with all streams selected."""
    catalog: dict[str, Any] = TapPostgres(config=CONFIG).catalog_dict
    for entry in catalog["streams"]:
        [root] = [item for item in entry["metadata"] if not item["breadcrumb"]]
        root["metadata"]["selected"] = True
    return catalog


TestTapPostgres = get_tap_test_class(
    TapPostgres,
    config=CONFIG,
    catalog=select_all_streams(),
    suite_config=SuiteConfig(max_records_limit=100),
)
