"""`python -m tests.bench [NAME ...]`: our programs beside others', in turns, as one table.

Nothing here fails because of a time: times belong to machines. What fails is
a wrong result. A row whose peer is not installed is named and left out.
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
from tests.bench.places import MissingPeerError
from tests.bench.table import Row, lines, markdown

__all__ = ["main"]


class Benchmark(NamedTuple):
    """A function of (folder, records, rounds) that gives rows, and what it is run with."""

    rows: Callable[..., Iterator[Row]]
    records: int
    rounds: int


BENCHMARKS = {
    "first-minutes": Benchmark(first_minutes.first_minutes, 0, 1),
    "narrow": Benchmark(taps.narrow, 200_000, 3),
    "nested": Benchmark(taps.nested, 200_000, 3),
    "wide": Benchmark(taps.wide, 50_000, 3),
    "maps": Benchmark(taps.maps, 50_000, 3),
    "partitions": Benchmark(taps.partitions, 100_000, 3),
    "children": Benchmark(taps.children, 200_000, 3),
    "discover": Benchmark(taps.discover, 0, 5),
    "rest": Benchmark(rest.rest, 100_000, 3),
    "parallel": Benchmark(rest.parallel, 600, 1),
    "postgres": Benchmark(postgres.postgres, 1_000_000, 3),
    "target-count": Benchmark(targets.count, 100_000, 3),
    "target-start": Benchmark(targets.start, 0, 3),
    "target-fold": Benchmark(targets.fold, 300_000, 3),
    "target-load": Benchmark(targets.load, 300_000, 3),
    "target-long": Benchmark(targets.whole, 2_000_000, 1),
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
    "cluster-whole": Benchmark(cluster.whole, 1_600_000, 1),
    "cluster-many": Benchmark(cluster.many, 10_000, 1),
    "cluster-simulation": Benchmark(cluster.simulated, 1_280_000, 1),
}

SCALED = frozenset({"target-long", "target-delta", "target-wide"})
"""Those that can run their peers with fewer records."""


def main(arguments: list[str]) -> int:
    """Run the benchmarks that are named, or all; print the table."""
    asked = _parser().parse_args(arguments)
    rows: list[Row] = []
    left_out: list[str] = []
    for name in asked.names or BENCHMARKS:
        one = BENCHMARKS[name]
        more = {"scaled_from": asked.scaled_from} if name in SCALED else {}
        print(f"{name}: {one.rows.__doc__}", file=sys.stderr)
        try:
            with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                records, rounds = asked.records or one.records, asked.rounds or one.rounds
                for row in one.rows(Path(folder), records, rounds, **more):
                    rows.append(row)
                    print("", " | ".join(row.cells()), file=sys.stderr)
        except MissingPeerError as error:
            left_out.append(f"{name}: left out, {error}")
        print(file=sys.stderr)
    print("\n".join((markdown if asked.markdown else lines)(rows)))
    print("\n".join(left_out), file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS], metavar="NAME")
    parser.add_argument("--records", type=int, help="instead of each benchmark's own count")
    parser.add_argument("--rounds", type=int, help="instead of each benchmark's own number")
    parser.add_argument(
        "--scaled-from",
        type=int,
        default=0,
        metavar="N",
        help="target-long, -delta, -wide: run the peers with N records only, and scale",
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
