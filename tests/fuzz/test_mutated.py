"""Mutations of the corpus, for as long as is asked (`make thorough`, FUZZ_SECONDS)."""

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
    """SEC11, SEC13 to SEC15, SEC21: a typed error or a row set aside, whatever the input.

    FUZZ_SEED makes the inputs of another run again; FUZZ_SECONDS says how long each reader gets.
    """
    outcome = mutate(reader, SECONDS, SEED)
    print(f"{reader}: {outcome.counts[reader]} inputs in {SECONDS:g} s, FUZZ_SEED={SEED}")
    told = "\n\n".join(map(str, outcome.failures))
    assert not outcome.failures, f"FUZZ_SEED={SEED}\n{told}"
