"""Helpers for tests of batch files: settings that write them, and readers."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from tap_core.batch.encodings import BaseBatchFileEncoding
from tap_core.batch.reader import read_rows

__all__ = ["ENCODINGS", "batch_config", "numbers", "read_batch_rows", "rows_named"]

ENCODINGS = [("jsonl", "gzip"), ("jsonl", "none"), ("parquet", None), ("parquet", "gzip")]


def batch_config(
    root: Any, form: str = "jsonl", compression: str | None = "gzip", size: int = 3
) -> dict[str, Any]:
    encoding = {"format": form} if compression is None else make_encoding(form, compression)
    storage = {"root": str(root), "prefix": "p-"}
    return {"batch_config": {"encoding": encoding, "storage": storage, "batch_size": size}}


def make_encoding(form: str, compression: str) -> dict[str, str]:
    return {"format": form, "compression": compression}


def read_batch_rows(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of all files of a BATCH message."""
    encoding = BaseBatchFileEncoding.from_dict(message["encoding"])
    return [row for path in message["manifest"] for row in read_rows(path, encoding, stream="s")]


def rows_named(messages: Iterable[dict[str, Any]], stream: str | None = None) -> list[Any]:
    """Return the rows of all files that BATCH messages name."""
    return [
        row
        for message in messages
        if message["type"] == "BATCH" and stream in {None, message["stream"]}
        for row in read_batch_rows(message)
    ]


def numbers(value: Any) -> Any:
    """Return a value with all numbers as decimals, to compare numbers of any type."""
    if isinstance(value, dict):
        return {key: numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [numbers(item) for item in value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return Decimal(repr(value)) if is_number else value
