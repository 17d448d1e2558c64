"""Loads that are killed at random moments: ``python -m tests.target.loader.crash``.

A scenario is one warehouse: its load is killed a few times, each time resumed from the last emitted
state (or the one in the tables), and then runs to its end. After each kill the tables are compared
with the messages sent. Python, the JVM or both are killed, the tap ends in the middle of a line, or
the target gets one or two signals. During the run its processes are stopped at random moments and
the warehouse is copied, which gives what a kill at that moment would leave. Each copy is compared
and resumed, too.

All choices come from the scenario's seed, which is printed; the moments also depend on the machine.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from target_spark.spark.jars import format_conf
from target_spark.spark.session import Session, SparkSettings
from tests.target.loader.crash_scenario import KILLS, VICTIMS, Scenario

__all__ = ["MODES", "main"]

MODES = {
    "delta": ("append", "upsert", "overwrite", "scd2"),
    "delta-rs": ("append", "upsert", "overwrite"),
    "iceberg": ("append", "upsert", "overwrite", "scd2"),
    "parquet": ("append", "overwrite"),
}


@dataclass
class Campaign:
    """Many scenarios, alternating between the pairs of format and mode."""

    session: Session
    options: argparse.Namespace
    started: float = field(default_factory=time.monotonic)
    deaths: dict[tuple[str, str], Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    failed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the random generator of the campaign."""
        self.chance = random.Random(self.options.base)

    def run(self) -> None:
        """Run scenarios until there are enough kills or the time is over."""
        if self.options.seed:
            for seed in self.options.seed:
                form, mode = seed.rsplit("-", 2)[0].rsplit("-", 1)
                self._run_scenario(form, mode, seed)
            return
        number = 0
        while due := [pair for pair in self._pairs() if self._is_due(pair)]:
            for form, mode in due:
                if self._is_over():
                    return
                self._run_scenario(form, mode, f"{form}-{mode}-{self.options.base}-{number}")
            number += 1
            print(self.summary(), flush=True)

    def summary(self) -> str:
        """Return the number of kills by victim, for each format and mode."""
        lines = [
            f"{form} {mode}: " + ", ".join(f"{victim} {n}" for victim, n in sorted(counts.items()))
            for (form, mode), counts in self.deaths.items()
        ]
        return "\n".join([*lines, f"{len(self.failed)} scenarios failed", *self.failed])

    def _pairs(self) -> list[tuple[str, str]]:
        """Return the selected pairs of format and mode in random order, since time may be short."""
        pairs = [
            (form, mode)
            for form, modes in MODES.items()
            for mode in modes
            if self.options.format in {form, "all"} and self.options.mode in {mode, "all"}
        ]
        self.chance.shuffle(pairs)
        return pairs

    def _is_due(self, pair: tuple[str, str]) -> bool:
        counts = self.deaths[pair]
        return sum(counts[victim] for victim in KILLS) < self.options.kills

    def _is_over(self) -> bool:
        return time.monotonic() - self.started >= 60 * self.options.minutes

    def _run_scenario(self, form: str, mode: str, seed: str) -> None:
        with tempfile.TemporaryDirectory(prefix="crash-") as folder:
            victims = KILLS if self.options.only_kills else VICTIMS
            scenario = Scenario(self.session, Path(folder), form, mode, seed, victims=victims)
            started = time.monotonic()
            try:
                scenario.run(self.options.deaths, self.options.copies)
                verdict = "ok"
            except Exception as error:  # noqa: BLE001  (the scenarios after it still run)
                verdict = f"FAILED: {error!r}"
                traceback.print_exc()
                self.failed.append(seed)
        self.deaths[form, mode] += scenario.deaths
        seconds = time.monotonic() - started
        print(f"{seed}: {verdict} ({seconds:.0f} s; {'; '.join(scenario.log)})", flush=True)


def main() -> int:
    """Run scenarios until there are enough kills; print the failed ones with their seeds."""
    parser = argparse.ArgumentParser(description="Kill loads at random moments.")
    parser.add_argument("--format", choices=[*MODES, "all"], default="all")
    parser.add_argument("--mode", default="all")
    parser.add_argument("--kills", type=int, default=100, help="for each format and mode")
    parser.add_argument("--minutes", type=float, default=24 * 60, help="begin no scenario after")
    parser.add_argument("--seed", nargs="+", help="repeat only the scenarios of these seeds")
    parser.add_argument("--base", default=str(int(time.time())), help="first part of the seeds")
    parser.add_argument("--deaths", type=int, default=3, help="in each scenario")
    parser.add_argument("--copies", type=int, default=4, help="of the warehouse before each death")
    parser.add_argument(
        "--only-kills", action="store_true", help="no signals and no tap that ends early"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Told to end."))
    iceberg = format_conf("iceberg", {}, (), metadata.version("pyspark"))
    session = Session(SparkSettings(master="local[1]", small_runs=True, conf=iceberg)).start()
    try:
        campaign = Campaign(session, options)
        campaign.run()
    finally:
        session.stop()
    print(campaign.summary(), flush=True)
    return 1 if campaign.failed else 0


if __name__ == "__main__":
    sys.exit(main())
