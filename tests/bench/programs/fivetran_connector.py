"""A connector with Fivetran's library, whose server listens on the port of ``--port N``."""

from __future__ import annotations

import os
import sys
from typing import Any

import generator
from fivetran_connector_sdk import Connector
from fivetran_connector_sdk import Operations as Op

RECORDS = int(os.environ["BENCH_RECORDS"])
COLUMNS = {
    "id": "LONG",
    "name": "STRING",
    "email": "STRING",
    "amount": "DOUBLE",
    "active": "BOOLEAN",
    "quantity": "LONG",
    "updated_at": "UTC_DATETIME",
    "note": "STRING",
}


def schema(_configuration: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the schema of the table."""
    return [{"table": "narrow", "primary_key": ["id"], "columns": COLUMNS}]


def update(configuration: dict[str, Any], state: dict[str, Any]) -> None:
    """Send all records, and a state after every ten thousand."""
    for number, record in enumerate(generator.narrow(RECORDS), 1):
        Op.upsert("narrow", record)
        if number % 10_000 == 0:
            Op.checkpoint({"updated_at": record["updated_at"]})
    Op.checkpoint({"updated_at": "2024"})


if __name__ == "__main__":
    Connector(update=update, schema=schema).run(port=int(sys.argv[2]))
