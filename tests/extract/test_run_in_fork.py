"""run_in_fork: results, errors and the death of the child process."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from target_spark.extract.forked_process import ProcessDiedError, run_in_fork


class Unpicklable(Exception):  # noqa: N818
    """Cannot be unpickled from its message."""

    def __init__(self, first: Any, second: Any) -> None:
        """Initialize the error with two values, which are joined to its message."""
        super().__init__(f"{first} and {second}")


def raising(error: BaseException) -> Any:
    """Return a function that raises ``error``."""

    def work() -> None:
        raise error

    return work


def test_result_is_returned_from_a_child_process() -> None:
    """The function runs in a child, and the parent gets its value."""
    assert run_in_fork(lambda: (os.getppid(), "done")) == (os.getpid(), "done")


@pytest.mark.parametrize("error", [ValueError("a"), SystemExit(3), KeyboardInterrupt()])
def test_error_of_the_child_is_raised_in_the_parent(error: BaseException) -> None:
    """This includes SystemExit and KeyboardInterrupt."""
    with pytest.raises(type(error)):
        run_in_fork(raising(error))


def test_error_that_cannot_be_pickled_is_reported_as_text() -> None:
    """The message has the type and the text of the error."""
    with pytest.raises(RuntimeError, match="Unpicklable: 1 and 2"):
        run_in_fork(raising(Unpicklable(1, 2)))


@pytest.mark.parametrize(
    ("death", "expected"),
    [(lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL"), (lambda: os._exit(7), "code 7")],
)
def test_death_of_the_child_is_an_error(death: Any, expected: str) -> None:
    """The parent survives and names the signal or exit code."""
    with pytest.raises(ProcessDiedError, match=expected):
        run_in_fork(death)
