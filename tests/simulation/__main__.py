"""Run schedules: ``python -m tests.simulation --seed 2871``, or ``--first 0 --count 100000``."""

from __future__ import annotations

import argparse
import logging
import sys

from tests.simulation.loads import InvariantError, simulated


def main() -> int:
    """Run the schedules of some seeds; print those that break an invariant, and return 1 then."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this schedule alone, and print its steps")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    only = given.seed
    seeds = range(given.first, given.first + given.count) if only is None else [only]
    failed = 0
    for seed in seeds:
        with simulated(seed) as schedule:
            try:
                schedule.run()
            except InvariantError as error:
                failed += 1
                print(error)
            else:
                if only is not None:
                    print(*schedule.scheduler.log, sep="\n")
    print(f"{len(seeds)} schedules, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
