"""`python -m tests.bench [NAME ...]`: run benchmarks and print their results as one table.

A limit that is not met is only shown, because times depend on the machine; a wrong result is an
error. Benchmarks whose peer is not installed are skipped and listed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.bench import (
    airbyte,
    cluster,
    deltas,
    engine_loads,
    first_minutes,
    fivetran,
    latency,
    manifests,
    postgres,
    rest,
    small_loads,
    taps,
    targets,
)
from tests.bench.programs_under_test import MissingPeerError
from tests.bench.table import Row, format_markdown, format_text

__all__ = ["main"]


class Benchmark(NamedTuple):
    """A benchmark with its defaults.

    Attributes:
        run: A function of (folder, records, rounds) that yields rows.
        records: The number of records.
        rounds: The number of rounds.
    """

    run: Callable[..., Iterator[Row]]
    records: int
    rounds: int


BENCHMARKS = {
    "first-minutes": Benchmark(first_minutes.first_minutes, 0, 1),
    "narrow": Benchmark(taps.narrow, 200_000, 3),
    "nested": Benchmark(taps.nested, 200_000, 3),
    "wide": Benchmark(taps.wide, 50_000, 3),
    "hooks": Benchmark(taps.hooks, 100_000, 3),
    "maps": Benchmark(taps.maps, 50_000, 3),
    "partitions": Benchmark(taps.partitions, 100_000, 3),
    "children": Benchmark(taps.children, 200_000, 3),
    "discover": Benchmark(taps.discover, 0, 5),
    "rest": Benchmark(rest.rest, 100_000, 3),
    "parallel": Benchmark(rest.parallel, 600, 1),
    "postgres": Benchmark(postgres.postgres, 1_000_000, 3),
    "postgres-log": Benchmark(postgres.postgres_log, 200_000, 3),
    "target-count": Benchmark(targets.count, 100_000, 3),
    "target-start": Benchmark(targets.start, 0, 3),
    "target-fold": Benchmark(targets.python_process, 300_000, 3),
    "target-load": Benchmark(targets.load, 300_000, 3),
    "target-long": Benchmark(targets.long_load, 2_000_000, 1),
    "target-delta": Benchmark(deltas.narrow, 2_000_000, 1),
    "target-appends": Benchmark(deltas.appends, 2_000_000, 1),
    "target-wide": Benchmark(deltas.wide, 500_000, 1),
    "target-streams": Benchmark(deltas.streams, 100_000, 1),
    "target-upsert": Benchmark(deltas.upsert, 100_000, 3),
    "target-small-upserts": Benchmark(small_loads.upserts, 200, 5),
    "target-engine": Benchmark(engine_loads.warm_upserts, 200, 5),
    "target-engine-many": Benchmark(engine_loads.warm_many_upserts, 20, 3),
    "target-engine-load": Benchmark(engine_loads.warm_loads, 300_000, 3),
    "target-overlap": Benchmark(deltas.overlap, 2_000_000, 1),
    "target-states": Benchmark(latency.states, 3_000, 1),
    "airbyte-spec": Benchmark(airbyte.spec, 0, 3),
    "airbyte-read": Benchmark(airbyte.read, 200_000, 3),
    "airbyte-state": Benchmark(airbyte.state, 30_000, 1),
    "airbyte-write": Benchmark(airbyte.write, 300_000, 3),
    "manifest-spec": Benchmark(manifests.spec, 0, 3),
    "manifest-read": Benchmark(manifests.read, 50_000, 3),
    "manifest-children": Benchmark(manifests.children, 2_000, 3),
    "manifest-partitions": Benchmark(manifests.partitions, 10_000, 3),
    "fivetran-update": Benchmark(fivetran.update, 30_000, 5),
    "fivetran-write": Benchmark(fivetran.write, 1_000_000, 3),
    "fivetran-merge": Benchmark(fivetran.merge, 1_000_000, 3),
    "fivetran-memory": Benchmark(fivetran.memory, 1_000_000, 1),
    "cluster-pages": Benchmark(cluster.slow_pages, 50_000, 1),
    "cluster-cpu": Benchmark(cluster.cpu, 1_600_000, 1),
    "cluster-whole": Benchmark(cluster.load, 1_600_000, 1),
    "cluster-many": Benchmark(cluster.many_partitions, 10_000, 1),
    "cluster-simulation": Benchmark(cluster.hundred_executors, 1_280_000, 1),
}

SCALED = frozenset({"target-long", "target-delta", "target-wide"})
"""Benchmarks that can run their peers with fewer records."""


def main(arguments: list[str]) -> int:
    """Run the named benchmarks, or all, and print the table of results."""
    options = _create_parser().parse_args(arguments)
    rows: list[Row] = []
    skipped: list[str] = []
    for name in options.names or BENCHMARKS:
        benchmark = BENCHMARKS[name]
        options_of_benchmark = {"scaled_from": options.scaled_from} if name in SCALED else {}
        print(f"{name}: {benchmark.run.__doc__}", file=sys.stderr)
        try:
            with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                records = options.records or benchmark.records
                rounds = options.rounds or benchmark.rounds
                for row in benchmark.run(Path(folder), records, rounds, **options_of_benchmark):
                    rows.append(row)
                    print("", " | ".join(row.cells()), file=sys.stderr)
        except MissingPeerError as error:
            skipped.append(f"{name}: skipped, {error}")
        print(file=sys.stderr)
    format_table = format_markdown if options.markdown else format_text
    print("\n".join(format_table(rows)))
    print("\n".join(skipped), file=sys.stderr)
    return 0


def _create_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS], metavar="NAME")
    parser.add_argument(
        "--records", type=int, help="records of each benchmark, instead of its default"
    )
    parser.add_argument(
        "--rounds", type=int, help="rounds of each benchmark, instead of its default"
    )
    parser.add_argument(
        "--scaled-from",
        type=int,
        default=0,
        metavar="N",
        help="target-long, -delta, -wide: run the peers with N records and scale their figures",
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
