"""Work in a process of its own: what it returns, what it raises, and that it may die."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from target_spark.extract.forked_process import ProcessDiedError, run_in_fork


class Unpicklable(Exception):  # noqa: N818
    """Cannot be made of its words again."""

    def __init__(self, one: Any, two: Any) -> None:
        """Take two values, of which words are made."""
        super().__init__(f"{one} and {two}")


def raising(error: BaseException) -> Any:
    """Return something that raises."""

    def work() -> None:
        raise error

    return work


def test_what_it_returns_comes_from_another_process() -> None:
    """The parent gets the value, and goes on being itself."""
    assert run_in_fork(lambda: (os.getppid(), "done")) == (os.getpid(), "done")


@pytest.mark.parametrize("error", [ValueError("a"), SystemExit(3), KeyboardInterrupt()])
def test_what_it_raises_is_raised_here(error: BaseException) -> None:
    """Also what would end a process."""
    with pytest.raises(type(error)):
        run_in_fork(raising(error))


def test_an_error_that_cannot_travel_is_told_in_words() -> None:
    """Its kind and its words arrive."""
    with pytest.raises(RuntimeError, match="Unpicklable: 1 and 2"):
        run_in_fork(raising(Unpicklable(1, 2)))


@pytest.mark.parametrize(
    ("death", "words"),
    [(lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL"), (lambda: os._exit(7), "code 7")],
)
def test_its_death_is_an_error(death: Any, words: str) -> None:
    """The parent lives on, and says how it died."""
    with pytest.raises(ProcessDiedError, match=words):
        run_in_fork(death)
