"""Run schedules: ``python -m tests.simulation --seed 2871``, or ``--first 0 --count 100000``."""

from __future__ import annotations

import argparse
import logging
import sys

from tests.simulation.loads import InvariantError, simulated
from tests.simulation.search import failures


def main() -> int:
    """Run the schedules of some seeds; print those that break an invariant, and return 1 then."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this schedule alone, and print its steps")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--processes", type=int, help="as many as processors, unless given")
    options = parser.parse_args()
    if options.seed is not None:
        return _show(options.seed)
    failed = 0
    for failure in failures(options.first, options.count, options.processes):
        failed += 1
        print(failure, flush=True)
    print(f"{options.count} schedules, {failed} failed")
    return 1 if failed else 0


def _show(seed: int) -> int:
    logging.disable(logging.CRITICAL)
    with simulated(seed) as schedule:
        try:
            schedule.run()
        except InvariantError as error:
            print(error)
            return 1
        print(*schedule.scheduler.log, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
