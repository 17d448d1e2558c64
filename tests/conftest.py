"""What all rooms' tests may ask for, and which of them a run takes.

Rules of the room: a test that is there once for each table format runs for one of them,
which its name decides, so that all formats are tried in every run and none of the tests
is left out; ``--every-format`` runs it for all (`make coverage`, `make check`).
``--share 0:60`` takes those files that hold the first 60 per cent of what is chosen; runs
that take the rest can go on beside it.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tap_core.redaction.process_secrets import forget_secrets
from target_spark.config.settings import SCHEMA
from tests.one_spark import spark as spark
from tests.one_spark import spark_session as spark_session
from tests.postgres import postgres as postgres

_FORMATS: Final = set(SCHEMA["properties"]["format"]["enum"]) - {None}


@pytest.fixture(autouse=True)
def _secrets_of_one_test() -> Iterator[None]:
    """Forget the secrets of a test's plugins after it: other tests may log the same texts."""
    yield
    forget_secrets()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run ask for all."""
    parser.addoption("--every-format", action="store_true", help="run tests for all table formats")
    parser.addoption("--share", default="0:100", help="which per cent of the tests: 0:60, 60:100")


def pytest_configure(config: pytest.Config) -> None:
    """Let PySpark's own carelessness pass: it leaves the socket of a `collect` to be collected."""
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket.*127.0.0.1:ResourceWarning")


@pytest.hookimpl(trylast=True)  # after marks have chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take one of the tests that differ in the table format alone, and this run's share."""
    taken = items if config.getoption("--every-format") else _one_for_each_format(items)
    taken = _share(taken, config.getoption("--share"))
    chosen = {item.nodeid for item in taken}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
    items[:] = taken


def _one_for_each_format(items: list[pytest.Item]) -> list[pytest.Item]:
    alike: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        alike[_but_for_the_format(item)].append(item)
    chosen = {twins[zlib.crc32(name.encode()) % len(twins)].nodeid for name, twins in alike.items()}
    return [item for item in items if item.nodeid in chosen]


def _share(items: list[pytest.Item], share: str) -> list[pytest.Item]:
    """Return the tests of the files that begin in this part of all."""
    begin, _, end = share.partition(":")
    begins: dict[Path, int] = {}
    for number, item in enumerate(items):
        begins.setdefault(item.path, number * 100)
    wanted = range(int(begin) * len(items), int(end) * len(items))
    return [item for item in items if begins[item.path] in wanted]


def _but_for_the_format(item: pytest.Item) -> str:
    called = getattr(item, "callspec", None)
    given = called.params.values() if called is not None else ()
    named = any(value in _FORMATS for value in given if isinstance(value, str))
    if not named or item.get_closest_marker("spark") is None:
        return item.nodeid
    parts = item.name.partition("[")[2].rstrip("]").split("-")
    kept = "-".join(part for part in parts if part not in _FORMATS)
    return f"{item.nodeid.partition('[')[0]}[{kept}]"
