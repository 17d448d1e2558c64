"""YAML manifests: loaded, linted, and built into streams, without requests."""

from __future__ import annotations

from pathlib import Path

from tap_core.manifest.lint import lint_manifest
from tap_core.manifest.tap import make_tap_class
from tests.fuzz.readers import Read

__all__ = ["make_manifests"]

CONFIG = {"api_url": "http://127.0.0.1:9", "api_key": "k", "start_date": "2024-01-01T00:00:00Z"}


def make_manifests(folder: Path) -> Read:
    """Return a reader of manifests."""
    path = folder / "manifest.yaml"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        for problem in lint_manifest(path).problems:
            assert str(problem)
        tap = make_tap_class(path)(config=CONFIG, validate_config=False)
        for stream in tap.streams.values():
            assert isinstance(stream.schema, dict)

    return read
