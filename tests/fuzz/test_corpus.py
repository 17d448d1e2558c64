"""Every seed of the corpus is read without a crash, a hang or excessive memory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fuzz import running
from tests.fuzz.mutations import Mutator
from tests.fuzz.readers import READERS, Reader
from tests.fuzz.running import CORPUS, Outcome, list_corpus, replay


@pytest.fixture(scope="module")
def replayed() -> Outcome:
    return replay()


@pytest.mark.parametrize("reader", READERS)
def test_corpus_breaks_no_reader(reader: str, replayed: Outcome) -> None:
    """SEC11, SEC13 to SEC15, SEC21: any input gives a typed error or a quarantined row.

    Ten CPU seconds and 600 MB are more than any seed may take.
    """
    failures = replayed.get_failures(reader)
    assert replayed.counts[reader] >= 10
    assert not failures, "\n\n".join(map(str, failures))


def test_every_seed_has_a_reader() -> None:
    used = {reader.corpus for reader in READERS.values()}
    assert {path.name for path in CORPUS.iterdir()} == used


def test_same_seed_gives_the_same_inputs() -> None:
    seeds = [path.read_bytes() for path in list_corpus("spark_target")]
    mutator, other = Mutator(seeds, 4), Mutator(seeds, 4)
    inputs = [mutator.make() for _ in range(300)]
    assert inputs == [other.make() for _ in range(300)]
    assert len(set(inputs)) > 250
    assert inputs != [Mutator(seeds, 5).make() for _ in range(300)]


FAULTY = {
    "growth": "bytearray(700 << 20)[::4096]",
    "crash": "raise KeyError('a')",
    "file": "open('/etc/hostname')",
    "host": "socket.create_connection(('evil.example', 80))",
    "program": "subprocess.run(['true'])",
    "hang": "while True: pass",
    "death": "os.abort()",
    "typed": "raise ConfigurationError('no')",
}


@pytest.mark.thorough
def test_driver_detects_crash_hang_growth_and_breaches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEC21: the driver detects a crash, a hang, growth, and forbidden actions."""
    (tmp_path / "corpus" / "seeds").mkdir(parents=True)
    for name in FAULTY:
        (tmp_path / "corpus" / "seeds" / name).write_text(name)
    cases = "".join(
        f"        if data == b'{name}':\n            {FAULTY[name]}\n" for name in FAULTY
    )
    (tmp_path / "faulty.py").write_text(
        "import os, socket, subprocess\n"
        "from tap_core.exceptions import ConfigurationError\n"
        f"def make(folder):\n    def read(data):\n{cases}    return read\n"
    )
    monkeypatch.setitem(READERS, "faulty", Reader("faulty:make", "seeds"))
    monkeypatch.setattr(running, "CORPUS", tmp_path / "corpus")
    monkeypatch.setattr(running, "FAILED", tmp_path / "failed")
    monkeypatch.setattr(running, "MODULES", str(tmp_path))
    monkeypatch.setattr(running, "CPU_SECONDS", 3)
    outcome = running.replay(["faulty"])
    assert outcome.counts["faulty"] == len(FAULTY)
    texts = {failure.path.read_text(): failure.text for failure in outcome.failures}
    assert set(texts) == set(FAULTY) - {"typed"}
    assert re.search(r"Memory: [67]\d\d MB more", texts["growth"])
    assert "KeyError" in texts["crash"]
    assert all("Breach" in texts[name] for name in ("file", "host", "program"))
    assert "exit -24" in texts["hang"]
    assert "exit -6" in texts["death"]
