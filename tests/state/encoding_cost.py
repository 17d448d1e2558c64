"""Number of bytes that a test encodes for states; bytes taken from a cache do not count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tap_core.state import encoder

__all__ = ["count_encoded_bytes"]


def count_encoded_bytes(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return a function that returns the number of bytes encoded since this call."""
    lengths: list[int] = []
    encode = encoder._FAST.encode

    def encode_and_count(value: Any) -> str:
        text = encode(value)
        lengths.append(len(text))
        return text

    monkeypatch.setattr(encoder._FAST, "encode", encode_and_count)
    return lambda: sum(lengths)
