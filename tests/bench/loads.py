"""Input and peers of the benchmarks that load one stream: singer_sdk's sink and dlt."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.bench.measure import Program, run
from tests.bench.places import ours, peer, written

__all__ = [
    "DLT",
    "SINGER",
    "check_delta",
    "check_parquet",
    "dlt",
    "remover",
    "singer",
    "tap_output",
]

SINGER, DLT = "singer_sdk sink", "dlt"


def tap_output(folder: Path, case: str, records: int) -> Path:
    """Return a file of Singer messages, which our tap writes if there is none."""
    path = folder / f"{case}-{records}"
    if not path.exists():
        config = written(folder / "tap.json", {"case": case, "records": records})
        run(ours("tap.py", "--config", config, environment={"BENCH_SDK": "tap_core"}), path)
    return path


def singer(folder: Path, feed: Path) -> Program:
    """Return the load of a file into Parquet files below ``folder/singer``."""
    place = folder / "singer"
    config = written(folder / "singer.json", {"path": str(place)})
    return peer("singer_sdk", "sink.py", "--config", config, feed=feed, before=remover(place))


def dlt(folder: Path, feed: Path, case: str, table_format: str, *, is_new: bool = True) -> Program:
    """Return dlt's load of a file into the table ``case`` below ``folder/dlt``.

    Args:
        folder: The folder of the benchmark.
        feed: The file of Singer messages.
        case: The name of the stream and of its generator.
        table_format: ``parquet`` or ``delta``.
        is_new: Whether each run begins without a table.
    """
    place = folder / "dlt"
    return peer(
        "dlt",
        "dlt_load.py",
        str(place),
        case,
        table_format,
        feed=feed,
        before=remover(place) if is_new else None,
        environment={"RUNTIME__DLTHUB_TELEMETRY": "false"},
    )


def check_delta(place: Path, case: str, records: int) -> None:
    """Compare a Delta table below a folder with the generator, value by value."""
    run(peer("dlt", "read_delta.py", str(place), case, str(records)))


def check_parquet(place: Path, case: str, records: int) -> None:
    """Compare the Parquet files below a folder with the generator, value by value."""
    run(peer("singer_sdk", "read_parquet.py", str(place), case, str(records)))


def remover(place: Path) -> Callable[[], None]:
    """Return a function that removes a folder if it exists."""
    return partial(shutil.rmtree, place, ignore_errors=True)
