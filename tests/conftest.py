"""Fixtures of all tests, and the options that select tests.

A test that is parametrized by the table format runs for one format only, which its name decides, so
that every run tries all formats and every test. ``--every-format`` runs it for all of them, and for
small batches without Spark (`make coverage`, `make thorough`). Of a test with the mark
``every_nth_case(n)``, the first of every n cases is in `make test`; the others are thorough.

Parallel runs with the same ``--queue=FOLDER``, which must be empty at first, divide the files with
their tests among them; each run begins with those without Spark. Each run ends with the seconds of
its tests by marker, beside the budget that they have in `make test` on two cores.
"""

from __future__ import annotations

import gc
import hashlib
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from tap_core.redaction import process_secrets
from target_spark.config.settings import SCHEMA
from tests.one_spark import compiled_spark as compiled_spark
from tests.one_spark import spark as spark
from tests.one_spark import spark_session as spark_session
from tests.postgres import postgres as postgres

settings.register_profile(
    "any speed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any speed")  # `make test` uses the profile ci, which has no limits either

_BUDGETS: Final = {"thorough": None, "spark": 1_300, "peer": 130, None: 700}
"""Seconds that the tests of a marker may take in `make test`; None for tests without any."""

_seconds: Counter[str | None] = Counter()
_collected_cases: Counter[str] = Counter()
_claimed: Final[dict[str, bool]] = {}

_FORMATS: Final = set(SCHEMA["properties"]["format"]["enum"]) - {None}
_WITHOUT_SPARK: Final = "delta-rs"
"""Parameter of tests that write small batches to Delta tables without Spark."""


@pytest.fixture(autouse=True)
def _secrets_of_one_test() -> Iterator[None]:
    """Forget the secrets of a test's plugins after it: other tests may log the same texts."""
    yield
    vars(process_secrets).update(_registry=type(process_secrets._registry)())


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options ``--every-format`` and ``--queue``."""
    parser.addoption("--every-format", action="store_true", help="run tests for all table formats")
    parser.addoption("--queue", type=Path, help="a folder by which runs divide the test files")


def pytest_configure(config: pytest.Config) -> None:
    """Ignore the warning about the socket that PySpark leaves open after a `collect`."""
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket.*127.0.0.1:ResourceWarning")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore files without Spark tests in runs of Spark tests, because imports take 30 seconds."""
    is_asked_for = any(
        Path(arg.partition("::")[0]).resolve() == collection_path for arg in config.args
    )
    is_test = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    if not is_test or is_asked_for or not config.getoption("markexpr").startswith("spark "):
        return None
    return None if _names_spark_mark(collection_path) else True


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the cases of a test that `make test` leaves out, and check the mark ``spark``.

    Raises:
        UsageError: A Spark test is in a file without ``mark.spark``, which runs of Spark tests
            leave out.
    """
    if mark := item.get_closest_marker("every_nth_case"):
        test, [n] = item.nodeid.partition("[")[0], mark.args
        if _collected_cases[test] % n:
            item.add_marker(pytest.mark.thorough)
        _collected_cases[test] += 1
    if _is_of_spark(item) and not _names_spark_mark(item.path):
        raise pytest.UsageError(f"{item.path}: write pytest.mark.spark in the file of the test.")


def _is_of_spark(item: pytest.Item) -> bool:
    return item.get_closest_marker("spark") is not None


@cache
def _names_spark_mark(path: Path) -> bool:
    return b"mark.spark" in path.read_bytes()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the duration of one phase of a test to the seconds of the test's first marker."""
    marker = next((name for name in _BUDGETS if name in report.keywords), None)
    _seconds[marker] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the seconds of this run's tests by marker, and the budget of the marker."""
    for marker, seconds in _seconds.items():
        budget = _BUDGETS[marker]
        of_all = f" (budget of all: {budget} s)" if budget else ""
        terminalreporter.write_line(f"{marker or 'unmarked'} tests: {seconds:.0f} s{of_all}")


@pytest.hookimpl(trylast=True)  # after the selection by markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one of the tests that differ only in the table format, but none without Spark."""
    selected = items if config.getoption("--every-format") else _one_for_each_format(items)
    node_ids = {item.nodeid for item in selected}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in node_ids])
    items[:] = sorted(selected, key=_is_of_spark) if config.getoption("--queue") else selected


def pytest_collection_finish() -> None:
    """Let the garbage collector leave out the collected tests, which live until the end."""
    gc.collect()
    gc.freeze()


def _one_for_each_format(items: list[pytest.Item]) -> list[pytest.Item]:
    variants: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        variants[_but_for_the_format(item)].append(item)
    node_ids = {
        twins[zlib.crc32(name.encode()) % len(twins)].nodeid for name, twins in variants.items()
    }
    node_ids -= {item.nodeid for item in items if _WITHOUT_SPARK in _get_parameters(item)}
    return [item for item in items if item.nodeid in node_ids]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests whose files no other run with the same queue has claimed."""
    queue = session.config.getoption("--queue")
    if queue is None or session.config.option.collectonly:
        return None
    items = (item for item in session.items if _claims(queue, item))
    item = next(items, None)
    while item is not None:
        following = next(items, None)  # pytest keeps the fixtures that this one needs as well
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item = following
    return True


def _claims(queue: Path, item: pytest.Item) -> bool:
    """Return True if this run tests the file of a test; the first run that asks does.

    A file may have tests with and without Spark, which different runs may claim.
    """
    claim = f"{_is_of_spark(item)} {item.path}"
    if claim not in _claimed:
        try:
            (queue / hashlib.sha256(claim.encode()).hexdigest()).touch(exist_ok=False)
            _claimed[claim] = True
        except FileExistsError:
            _claimed[claim] = False
    return _claimed[claim]


def _get_parameters(item: pytest.Item) -> set[str]:
    """Return the parameters of a test that are strings."""
    called = getattr(item, "callspec", None)
    values = called.params.values() if called is not None else ()
    return {value for value in values if isinstance(value, str)}


def _but_for_the_format(item: pytest.Item) -> str:
    named = not _FORMATS.isdisjoint(_get_parameters(item))
    if not named or item.get_closest_marker("spark") is None:
        return item.nodeid
    parts = item.name.partition("[")[2].rstrip("]").split("-")
    other_parts = "-".join(part for part in parts if part not in _FORMATS)
    return f"{item.nodeid.partition('[')[0]}[{other_parts}]"
