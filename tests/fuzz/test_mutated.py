"""Mutations of the corpus, for a given time (`make thorough`, FUZZ_SECONDS)."""

from __future__ import annotations

import os
import random

import pytest

from tests.fuzz.readers import READERS
from tests.fuzz.running import mutate

SECONDS = float(os.environ.get("FUZZ_SECONDS") or 20)
SEED = int(os.environ.get("FUZZ_SEED") or random.SystemRandom().randrange(1 << 32))


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_mutations_break_no_reader(reader: str) -> None:
    """SEC11, SEC13 to SEC15, SEC21: any input gives a typed error or a quarantined row.

    FUZZ_SEED gives the inputs of another run again; FUZZ_SECONDS is the time per reader.
    """
    outcome = mutate(reader, SECONDS, SEED)
    print(f"{reader}: {outcome.counts[reader]} inputs in {SECONDS:g} s, FUZZ_SEED={SEED}")
    text = "\n\n".join(map(str, outcome.failures))
    assert not outcome.failures, f"FUZZ_SEED={SEED}\n{text}"
