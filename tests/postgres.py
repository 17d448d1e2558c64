"""A real PostgreSQL for tests and benchmarks: one server per process, throw-away databases.

A test asks for the fixture `postgres` and is skipped, saying why, when the
server programs are not there; it never installs anything. `python -m tests.postgres` does, with
Debian's package, before the tests run. The server listens on loopback alone, with a password. It
is the child of a keeper that ends it and removes its files as soon as the pipe to the process
that wanted it closes, so that it outlives no test run, however that dies.

`TAP_CORE_POSTGRES_BIN` names a folder with `initdb` and `postgres` instead of the one found.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pwd
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import psycopg

__all__ = [
    "Database",
    "Server",
    "missing_reason",
    "postgres",
    "server",
    "server_programs",
    "shared_server",
]

PACKAGE = "postgresql"
VARIABLE = "TAP_CORE_POSTGRES_BIN"
USER = "tester"
ATTEMPTS = 5
START_SECONDS = 60.0
STOP_SECONDS = 10.0
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
    "jit": "off",
    "max_connections": "60",
    "max_locks_per_transaction": "512",  # thousands of tables made in one transaction
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m %d ",  # which database a line is about
}


@dataclass(frozen=True)
class Database:
    """A database of a running server, and how to reach it."""

    host: str
    port: int
    user: str
    password: str
    name: str

    @property
    def url(self) -> str:
        """The address as SQLAlchemy wants it, for psycopg 3."""
        return self.url_for("postgresql+psycopg")

    def url_for(self, driver: str) -> str:
        """Return the address for another driver (`postgresql`: libpq's own form)."""
        return f"{driver}://{self.user}:{self.password}@{self.host}:{self.port}/{self.name}"

    @property
    def settings(self) -> dict[str, Any]:
        """The same in parts, named as taps and targets name their settings."""
        return {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "database": self.name,
        }

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """Return a connection that commits each statement by itself; close it (`with`)."""
        import psycopg

        options = {"autocommit": True, **options}
        return psycopg.connect(self.url_for("postgresql"), **options)

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements one by one; return the rows of the last, none where it has none."""
        with self.connect() as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


@dataclass(frozen=True)
class Server:
    """A running server; ``folder`` has its files, ``folder / "log"`` what it says."""

    port: int
    password: str
    folder: Path
    host: str = "127.0.0.1"
    user: str = USER

    @property
    def log(self) -> Path:
        """What the server says, in a file."""
        return self.folder / "log"

    @property
    def maintenance(self) -> Database:
        """The database that is always there; for what concerns the server, not for tables."""
        return self._named("postgres")

    @contextlib.contextmanager
    def database(self, name: str | None = None) -> Iterator[Database]:
        """Make a database, and drop it at the end, also if clients are still connected.

        Without ``name`` it gets one of its own.
        """
        name = name or f"test_{secrets.token_hex(6)}"
        quoted = '"' + name.replace('"', '""') + '"'
        self.maintenance.run(f"CREATE DATABASE {quoted}")
        try:
            yield self._named(name)
        finally:
            self.maintenance.run(f"DROP DATABASE IF EXISTS {quoted} WITH (FORCE)")

    def _named(self, name: str) -> Database:
        return Database(self.host, self.port, self.user, self.password, name)


# ------------------------------------------------------------------------- for tests
@pytest.fixture(scope="session")
def postgres() -> Server:
    """The server that all tests of this process share."""
    if server_programs() is None:
        pytest.skip(missing_reason())
    return shared_server()


@cache
def shared_server() -> Server:
    """Start this process's server on the first call; it ends with the process."""
    running = server()
    started = running.__enter__()
    atexit.register(running.__exit__, None, None, None)
    return started


def missing_reason() -> str:
    """Say why a test is skipped and how to get what it needs."""
    return (
        f"PostgreSQL's server programs are not installed: Debian's package {PACKAGE}, "
        f"or {VARIABLE} as the folder of initdb and postgres (python -m tests.postgres)"
    )


def server_programs() -> Path | None:
    """Return the folder that has `initdb` and `postgres`, or None where there is none.

    Raises:
        FileNotFoundError: ``TAP_CORE_POSTGRES_BIN`` names a folder without them.
    """
    if given := os.environ.get(VARIABLE):
        if not _has_programs(Path(given)):
            message = f"{VARIABLE}={given}: no initdb and postgres there"
            raise FileNotFoundError(message)
        return Path(given)
    return next(filter(_has_programs, _places()), None)


def _places() -> Iterator[Path]:
    """Yield where the programs may be; those of Debian's package are not on the path."""
    if found := shutil.which("initdb"):
        yield Path(found).resolve().parent
    if shutil.which("pg_config"):
        yield Path(_run(["pg_config", "--bindir"]).stdout.strip() or "/nowhere")
    debian = Path("/usr/lib/postgresql")
    yield from sorted(
        debian.glob("*/bin"),
        key=lambda folder: float(folder.parent.name) if folder.parent.name.isdigit() else 0,
        reverse=True,
    )


def _run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, whatever that is."""
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, **options}
    return subprocess.run(command, check=False, **options)


def _has_programs(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres"))


# --------------------------------------------------------------------------- running
@contextlib.contextmanager
def server(**settings: str) -> Iterator[Server]:
    """Run a server of one's own, with more settings of `postgresql.conf`.

    Raises:
        FileNotFoundError: its programs are not installed.
        RuntimeError: it does not start; the message has what it said.
    """
    programs = server_programs()
    if programs is None:
        raise FileNotFoundError(missing_reason())
    folder, password = _folder(), secrets.token_urlsafe(12)
    try:
        _make_cluster(programs, folder, password)
        keeper, started = _started(programs, folder, password, {**SETTINGS, **settings})
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    try:
        yield started
    finally:
        _stop(keeper)


def _folder() -> Path:
    """Make a folder that the server's user can reach; not every TMPDIR is open to others."""
    places = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
    fits = [place for place in places if place.is_dir() and _is_open(place.resolve())]
    folder = Path(tempfile.mkdtemp(prefix="tap-core-postgres-", dir=(fits or places)[0]))
    if user := _server_user():
        shutil.chown(folder, user)
    return folder


def _is_open(place: Path) -> bool:
    return not _server_user() or all(path.stat().st_mode & 1 for path in (place, *place.parents))


@cache
def _server_user() -> str | None:
    """Return who runs the server: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    message = "PostgreSQL does not run as root, and there is no user postgres or nobody"
    raise RuntimeError(message)


def _as_server_user() -> dict[str, Any]:
    """Return what `subprocess` needs to start a program as that user."""
    name = _server_user()
    if name is None:
        return {}
    entry = pwd.getpwnam(name)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _make_cluster(programs: Path, folder: Path, password: str) -> None:
    words = folder / "password"
    words.write_text(password)
    if user := _server_user():
        shutil.chown(words, user)
    command = [str(programs / "initdb"), "-D", str(folder / "data"), "-U", USER, "--no-sync"]
    command += ["--auth=scram-sha-256", f"--pwfile={words}", "--encoding=UTF8", "--no-locale"]
    made = _run(command, cwd=folder, **_as_server_user())
    words.unlink()
    if made.returncode:
        message = f"initdb ended with {made.returncode}: {made.stderr}"
        raise RuntimeError(message)


def _started(
    programs: Path, folder: Path, password: str, settings: dict[str, str]
) -> tuple[subprocess.Popen[bytes], Server]:
    """Start the server; another process may take the port that was free a moment ago."""
    for _ in range(ATTEMPTS):
        port = _free_port()
        options = [f"--{key}={value}" for key, value in {**settings, "port": str(port)}.items()]
        keeper = subprocess.Popen(
            [sys.executable, __file__, "--keep", str(programs / "postgres"), str(folder), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
            start_new_session=True,  # a Ctrl-C is for the tests; they end their server
        )
        started = Server(port, password, folder)
        if _answers(keeper, started):
            return keeper, started
    errors = started.log.read_text(errors="replace") if started.log.exists() else "(nothing)"
    message = f"PostgreSQL does not start: {errors[-2000:]}"
    raise RuntimeError(message)


def _answers(keeper: subprocess.Popen[bytes], started: Server) -> bool:
    """Wait until the server takes connections; False when it has ended instead."""
    import psycopg

    deadline = time.monotonic() + START_SECONDS
    while keeper.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(psycopg.OperationalError):
            return bool(started.maintenance.run("SELECT 1"))
        time.sleep(0.05)
    _stop(keeper)
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _stop(keeper: subprocess.Popen[bytes]) -> None:
    assert keeper.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        keeper.stdin.close()
    keeper.wait(3 * STOP_SECONDS)


# -------------------------------------------------------------------------- the keeper
def _keep(program: str, folder: Path, options: list[str]) -> int:
    """Run the server until standard input ends or it does; leave nothing behind."""
    command = [program, "-D", str(folder / "data"), *options]
    with (folder / "log").open("ab") as log:
        child = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            **_as_server_user(),
        )
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda signum, _: asked.append(signum))
    while not asked and child.poll() is None and not select.select([0], [], [], 0.2)[0]:
        pass
    if child.poll() is not None:  # the caller reads the log
        return child.returncode or 1
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):  # fast, immediate, at once
        child.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(STOP_SECONDS)
            break
    shutil.rmtree(folder, ignore_errors=True)
    return 0


# ------------------------------------------------------------------------ installing
def _may_install() -> list[str] | None:
    """Return what stands before `apt-get` so that it may install, or None where it may not."""
    if shutil.which("apt-get") is None:
        return None
    if os.geteuid() == 0:
        return []
    sudo = ["sudo", "--non-interactive"]
    if shutil.which("sudo") and _run([*sudo, "true"]).returncode == 0:
        return sudo
    return None


def _install(prefix: list[str], package: str) -> bool:
    """Install a package of Debian; its lists are fetched only when it is not known without."""
    apt = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y"]
    install = [*apt, "install", "--no-install-recommends", package]
    for command in (install, [*apt, "update"], install):
        done = _run(command)
        if done.returncode == 0 and command is install:
            return True
    print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
    return False


def _install_plugin(name: str) -> None:
    """Install a plugin for the output of the log; benchmarks are skipped without it."""
    programs, prefix = server_programs(), _may_install()
    if programs is None or (programs.parent / "lib" / f"{name}.so").exists():
        return
    package = f"{PACKAGE}-{programs.parent.name}-{name}"
    if prefix is None or not _install(prefix, package):
        print(f"left out: {package}")


def main(plugins: list[str]) -> int:
    """Install the server programs unless they are there; 1 when they could be and are not.

    ``plugins`` are names of plugins for the output of the log, such as ``wal2json``.
    """
    if server_programs() is None:
        prefix = _may_install()
        if prefix is None:
            print(f"left out: {missing_reason()}")
            return 0
        print(f"Installing {PACKAGE}", flush=True)
        if not _install(prefix, PACKAGE) or server_programs() is None:
            print(missing_reason(), file=sys.stderr)
            return 1
    for plugin in plugins:
        _install_plugin(plugin)
    print(f"postgres: {server_programs()}")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--keep"]:
        sys.exit(_keep(sys.argv[2], Path(sys.argv[3]), sys.argv[4:]))
    sys.exit(main(sys.argv[1:]))
