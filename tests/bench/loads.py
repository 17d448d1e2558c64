"""The input of benchmarks that load one stream, and their peers: a singer_sdk sink and dlt."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.bench.measure import Program, run
from tests.bench.programs_under_test import our_program, peer_program, write_json

__all__ = [
    "DLT",
    "SINGER",
    "check_delta",
    "check_parquet",
    "dlt_load",
    "remover",
    "replace_folder",
    "singer_load",
    "write_tap_output",
]

SINGER, DLT = "singer_sdk sink", "dlt"


def write_tap_output(folder: Path, case: str, records: int) -> Path:
    """Return a file with the Singer messages of a tap of this project, written on first use."""
    path = folder / f"{case}-{records}"
    if not path.exists():
        config = write_json(folder / "tap.json", {"case": case, "records": records})
        run(our_program("tap.py", "--config", config, environment={"BENCH_SDK": "tap_core"}), path)
    return path


def singer_load(folder: Path, feed: Path) -> Program:
    """Return singer_sdk's load of a file into Parquet files below ``folder/singer``."""
    tables = folder / "singer"
    config = write_json(folder / "singer.json", {"path": str(tables)})
    return peer_program(
        "singer_sdk", "singer_target.py", "--config", config, feed=feed, before=remover(tables)
    )


def dlt_load(
    folder: Path, feed: Path, case: str, table_format: str, *, is_new: bool = True
) -> Program:
    """Return dlt's load of a file into the table ``case`` below ``folder/dlt``.

    Args:
        folder: The folder of the benchmark.
        feed: The file of Singer messages.
        case: The name of the stream and of its generator.
        table_format: ``parquet`` or ``delta``.
        is_new: Whether each run begins without a table.
    """
    tables = folder / "dlt"
    return peer_program(
        "dlt",
        "dlt_load.py",
        str(tables),
        case,
        table_format,
        feed=feed,
        before=remover(tables) if is_new else None,
        environment={"RUNTIME__DLTHUB_TELEMETRY": "false"},
    )


def check_delta(tables: Path, case: str, records: int) -> None:
    """Compare a Delta table below a folder with the generator, value by value."""
    run(peer_program("dlt", "check_delta.py", str(tables), case, str(records)))


def check_parquet(tables: Path, case: str, records: int) -> None:
    """Compare the Parquet files below a folder with the generator, value by value."""
    run(peer_program("singer_sdk", "check_parquet.py", str(tables), case, str(records)))


def remover(tables: Path) -> Callable[[], None]:
    """Return a function that removes a folder if it exists."""
    return partial(shutil.rmtree, tables, ignore_errors=True)


def replace_folder(source: Path, destination: Path) -> None:
    """Copy a folder to a path, in place of what is there."""
    remover(destination)()
    shutil.copytree(source, destination)
