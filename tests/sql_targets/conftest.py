"""Databases to load into: SQLite always, PostgreSQL where its programs are."""

from __future__ import annotations

import pytest

OURS = (
    "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'"
)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request):
    """The address of an empty database whose clock is not in UTC."""
    return request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path / 'some.db'}"


@pytest.fixture(scope="session")
def one_database(postgres):
    with postgres.database() as database:
        database.run(f"ALTER DATABASE {database.name} SET timezone TO 'America/New_York'")
        yield database


@pytest.fixture
def postgres_url(one_database):
    """One database for all tests: to make one takes longer than to empty it."""
    yield one_database.url
    schemas = one_database.run(OURS)
    drops = [f'DROP SCHEMA "{name}" CASCADE' for (name,) in schemas]
    one_database.run(*drops, "CREATE SCHEMA public")
