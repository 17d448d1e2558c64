"""Databases to load into: SQLite, and PostgreSQL if its programs are installed."""

from __future__ import annotations

import pytest

USER_SCHEMAS = (
    "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'"
)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request):
    """Return the URL of an empty database; PostgreSQL's session time zone is not UTC."""
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
    """Return the URL of a shared database; it is emptied after each test, which is fast."""
    yield one_database.url
    schemas = one_database.run(USER_SCHEMAS)
    drops = [f'DROP SCHEMA "{name}" CASCADE' for (name,) in schemas]
    one_database.run(*drops, "CREATE SCHEMA public")
