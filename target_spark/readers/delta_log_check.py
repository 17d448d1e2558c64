"""Check that the log of a Delta table names only files that are in the table's folder.

The library deltalake opens all files and deletion vectors that the log names, in any folder.
Source: the Delta protocol, sections "Deletion Vectors" and "Sidecar File Information".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

import msgspec

from tap_core.limits.memory import open_regular_file
from target_spark.errors import TableError
from target_spark.readers.file_locations import check_locations

__all__ = ["SPARK_HINT", "check_log", "check_paths"]

SPARK_HINT: Final = "Read it with spark.read.format('delta')."
"""Last sentence of error messages about a Delta table that only Spark can read."""

_URL_SYNTAX: Final = r"[\x00-\x1f\\?#]|^ | $"
"""Characters that deltalake removes or misreads in a path, because it reads the path as a URL.

A backslash is read as a slash, and ``?`` or ``#`` as the end of the path. A writer has to encode
these characters.
"""

_SIDECARS: Final = "_sidecars"
_UUID_LENGTH: Final = 20
"""Number of characters at the end of a deletion vector's path that encode the UUID in its file's
name. Characters before them are the name of a folder."""


class _DeletionVector(msgspec.Struct, rename="camel"):
    storage_type: str | None = None
    path_or_inline_dv: str | None = None


class _DataFile(msgspec.Struct, rename="camel"):
    deletion_vector: _DeletionVector | None = None


class _Sidecar(msgspec.Struct):
    path: str | None = None


class _Action(msgspec.Struct):
    add: _DataFile | None = None
    sidecar: _Sidecar | None = None


_decode_action: Final = msgspec.json.Decoder(_Action).decode
_COLUMNS: Final = ("add.deletionVector.", "sidecar.")


def check_log(folder: Path) -> None:
    """Check that all files named by the log of the Delta table in ``folder`` are in this folder.

    Raises:
        TableError: A file of the log, a sidecar or a deletion vector is not in the folder, or the
            log is not valid.
    """
    log = folder / "_delta_log"
    check_locations(folder, [str(log.absolute())])
    files: set[tuple[Path, str]] = set()
    for path in sorted(log.rglob("*")):
        check_locations(log, [str(path.absolute())])
        is_sidecar = _SIDECARS in path.relative_to(log).parts[:-1]
        if not is_sidecar and path.suffix not in {".json", ".parquet"}:
            continue
        try:
            for action in _read_actions(path, is_json=path.suffix == ".json" and not is_sidecar):
                files.update(_find_files(folder, action))
        except FileNotFoundError:  # a writer has removed an old file
            continue
        except (OSError, ValueError) as error:
            raise TableError(
                f"{folder} cannot be read without Spark, because {path.name} in its log is not"
                f" valid: {error}. {SPARK_HINT}"
            ) from error
    for parent, file in files:
        check_paths(parent, [file])


def check_paths(folder: Path, paths: Collection[str]) -> None:
    """Check that the paths in a Delta log lead to files in a folder.

    Each path is checked both as written and percent-decoded.

    Args:
        folder: The folder.
        paths: Paths relative to the folder, absolute paths or URIs; they may be percent-encoded.

    Raises:
        TableError: A path leads to another folder, or to something other than a regular file.
    """
    check_locations(folder, paths, _URL_SYNTAX)
    check_locations(folder, map(unquote, paths))


def _read_actions(path: Path, *, is_json: bool) -> Iterator[_Action]:
    """Yield the actions in a file of a Delta log, with their deletion vectors and sidecars.

    ``is_json`` is True for a JSON file of commits, and False for a Parquet checkpoint.

    Raises:
        OSError: The file is not a regular file.
        ValueError: The file is not valid.
    """
    with open_regular_file(path) as file:
        if is_json:
            yield from (_decode_action(line) for line in file if line.strip())
            return
        for row in _read_rows(file):
            yield _decode_action(msgspec.json.encode(row))


def _read_rows(file: Any) -> Iterable[dict[str, Any]]:
    import pyarrow.parquet as pq

    parquet = pq.ParquetFile(file)
    names = [parquet.schema.column(index).path for index in range(len(parquet.schema))]
    columns = [name for name in names if name.startswith(_COLUMNS)]
    if columns:
        for batch in parquet.iter_batches(columns=columns):
            yield from batch.to_pylist()


def _find_files(folder: Path, action: _Action) -> Iterator[tuple[Path, str]]:
    """Yield the sidecar file and the deletion vector file that an action of a Delta log names.

    Each item is a tuple of the folder that must contain the file, and the file's path. The path may
    be relative to that folder, absolute, or a URI.
    """
    if action.sidecar is not None and action.sidecar.path is not None:
        yield folder / "_delta_log" / _SIDECARS, action.sidecar.path
    vector = action.add.deletion_vector if action.add else None
    if vector is None or vector.path_or_inline_dv is None or vector.storage_type == "i":
        return
    if vector.storage_type == "p":
        yield folder, vector.path_or_inline_dv
        return
    # The folder of the file; deltalake derives the file's name from the UUID.
    subfolder = vector.path_or_inline_dv[:-_UUID_LENGTH]
    if subfolder:
        yield folder, f"{subfolder}/_"
    for path in (folder / unquote(subfolder)).glob("deletion_vector_*.bin"):
        yield folder, quote(str(path.absolute()))
