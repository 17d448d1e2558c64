"""Loads that die at random moments: ``python -m tests.target.loader.crash``.

A life is one warehouse: its load dies a few times, each time resumed from the last
state that left (or that the tables hold), and at last it runs to its end. After each
death the tables are held against what was sent. Python, the JVM or both are killed, the
tap dies in the middle of a line, or the target is told to end, once or twice. While it
runs, its processes are halted here and there and the warehouse is copied: what a kill at
that moment would have left. Each copy is held against what was sent and resumed, too.

All that is chosen comes from the life's seed, which is printed; the moments depend on the
machine too.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from target_spark.spark.jars import format_conf
from target_spark.spark.session import Session, SparkSettings
from tests.target.loader.crash_life import KILLS, VICTIMS, Life

__all__ = ["MODES", "main"]

MODES = {
    "delta": ("append", "upsert", "overwrite", "scd2"),
    "iceberg": ("append", "upsert", "overwrite", "scd2"),
    "parquet": ("append", "overwrite"),
}


@dataclass
class Campaign:
    """Many lives, the pairs of format and mode in turn."""

    session: Session
    given: argparse.Namespace
    started: float = field(default_factory=time.monotonic)
    deaths: dict[tuple[str, str], Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    failed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Choose what holds for the whole campaign."""
        self.chance = random.Random(self.given.base)

    def run(self) -> None:
        """Run lives until enough was died or the time is over."""
        if self.given.seed:
            for seed in self.given.seed:
                form, mode, *_ = seed.split("-")
                self._live(form, mode, seed)
            return
        number = 0
        while due := [pair for pair in self._pairs() if self._is_due(pair)]:
            for form, mode in due:
                if self._is_over():
                    return
                self._live(form, mode, f"{form}-{mode}-{self.given.base}-{number}")
            number += 1
            print(self.told(), flush=True)

    def told(self) -> str:
        """Return who died how often, per format and mode."""
        lines = [
            f"{form} {mode}: " + ", ".join(f"{who} {n}" for who, n in sorted(counts.items()))
            for (form, mode), counts in self.deaths.items()
        ]
        return "\n".join([*lines, f"{len(self.failed)} lives failed", *self.failed])

    def _pairs(self) -> list[tuple[str, str]]:
        """Return what is asked for, in another order each time: the time may be short."""
        pairs = [
            (form, mode)
            for form, modes in MODES.items()
            for mode in modes
            if self.given.format in {form, "all"} and self.given.mode in {mode, "all"}
        ]
        self.chance.shuffle(pairs)
        return pairs

    def _is_due(self, pair: tuple[str, str]) -> bool:
        counts = self.deaths[pair]
        return sum(counts[who] for who in KILLS) < self.given.kills

    def _is_over(self) -> bool:
        return time.monotonic() - self.started >= 60 * self.given.minutes

    def _live(self, form: str, mode: str, seed: str) -> None:
        with tempfile.TemporaryDirectory(prefix="crash-") as folder:
            victims = KILLS if self.given.only_kills else VICTIMS
            life = Life(self.session, Path(folder), form, mode, seed, victims=victims)
            started = time.monotonic()
            try:
                life.live(self.given.deaths, self.given.copies)
                verdict = "ok"
            except Exception as error:  # noqa: BLE001  (the lives after it count all the same)
                verdict = f"FAILED: {error!r}"
                self.failed.append(seed)
        self.deaths[form, mode] += life.deaths
        seconds = time.monotonic() - started
        print(f"{seed}: {verdict} ({seconds:.0f} s; {'; '.join(life.log)})", flush=True)


def main() -> int:
    """Run lives until so many deaths were died; print what failed, with its seed."""
    parser = argparse.ArgumentParser(description="Kill loads at random moments.")
    parser.add_argument("--format", choices=[*MODES, "all"], default="all")
    parser.add_argument("--mode", default="all")
    parser.add_argument("--kills", type=int, default=100, help="for each format and mode")
    parser.add_argument("--minutes", type=float, default=24 * 60, help="begin no life after")
    parser.add_argument("--seed", nargs="+", help="repeat the lives of these seeds alone")
    parser.add_argument("--base", default=str(int(time.time())), help="what seeds are made of")
    parser.add_argument("--deaths", type=int, default=3, help="in each life")
    parser.add_argument("--copies", type=int, default=4, help="of the warehouse before each death")
    parser.add_argument("--only-kills", action="store_true", help="no other way to die")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Told to end."))
    iceberg = format_conf("iceberg", {}, (), metadata.version("pyspark"))
    session = Session.start(SparkSettings(master="local[1]", small_runs=True, conf=iceberg))
    try:
        campaign = Campaign(session, given)
        campaign.run()
    finally:
        session.stop()
    print(campaign.told(), flush=True)
    return 1 if campaign.failed else 0


if __name__ == "__main__":
    sys.exit(main())
