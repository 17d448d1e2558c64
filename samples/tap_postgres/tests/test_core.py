"""The tests that every tap should pass, on the tables of a database of your own.

`TAP_POSTGRES_SQLALCHEMY_URL=postgresql://… pytest samples/tap_postgres/tests` runs them.
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
    pytest.skip(f"{VARIABLE} says which database to read", allow_module_level=True)
CONFIG = {"sqlalchemy_url": URL}


def everything() -> dict[str, Any]:
    """Return the catalog with all of its streams selected."""
    catalog: dict[str, Any] = TapPostgres(config=CONFIG).catalog_dict
    for entry in catalog["streams"]:
        [root] = [found for found in entry["metadata"] if not found["breadcrumb"]]
        root["metadata"]["selected"] = True
    return catalog


TestTapPostgres = get_tap_test_class(
    TapPostgres,
    config=CONFIG,
    catalog=everything(),
    suite_config=SuiteConfig(max_records_limit=100),
)
