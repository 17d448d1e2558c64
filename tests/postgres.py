"""Real PostgreSQL servers for tests and benchmarks: one per process, with temporary databases.

A test that uses the fixture `postgres` is skipped with a reason if the server programs are not
installed. `python -m tests.postgres` installs them from Debian's package; tests install nothing.
The server listens only on loopback, with a password. It is started by a keeper process, which
stops it and removes its files when the pipe to the test process closes. So the server ends with the
test process, even if that is killed.

The variable `TAP_CORE_POSTGRES_BIN` selects another folder with `initdb` and `postgres`.
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
    "max_locks_per_transaction": "512",  # tests create thousands of tables in one transaction
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m %d ",  # with the name of the database
}


@dataclass(frozen=True)
class Database:
    """Database of a running server, with the parameters of a connection."""

    host: str
    port: int
    user: str
    password: str
    name: str

    @property
    def url(self) -> str:
        """URL of the database for SQLAlchemy with psycopg 3."""
        return self.url_for("postgresql+psycopg")

    def url_for(self, driver: str) -> str:
        """Return the URL of the database for another driver; `postgresql` is that of libpq."""
        return f"{driver}://{self.user}:{self.password}@{self.host}:{self.port}/{self.name}"

    @property
    def settings(self) -> dict[str, Any]:
        """Parameters of a connection, with the names of the settings of taps and targets."""
        return {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "database": self.name,
        }

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """Return a connection in autocommit mode; use it in a ``with`` block, which closes it."""
        import psycopg

        options = {"autocommit": True, **options}
        return psycopg.connect(self.url_for("postgresql"), **options)

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements, and return the rows of the last one; an empty list if it returns none."""
        with self.connect() as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


@dataclass(frozen=True)
class Server:
    """Running server; ``folder`` contains its files."""

    port: int
    password: str
    folder: Path
    host: str = "127.0.0.1"
    user: str = USER

    @property
    def log(self) -> Path:
        """Path of the server's log."""
        return self.folder / "log"

    @property
    def maintenance(self) -> Database:
        """Database `postgres`, for statements about the server; tests create no tables in it."""
        return self._named("postgres")

    @contextlib.contextmanager
    def database(self, name: str | None = None) -> Iterator[Database]:
        """Create a database, and drop it at the end, even if clients are still connected.

        The default of ``name`` is a new random name.
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
    """Server that all tests of this process share."""
    if server_programs() is None:
        pytest.skip(missing_reason())
    return shared_server()


@cache
def shared_server() -> Server:
    """Return the server of this process, which is started by the first call."""
    running = server()
    started = running.__enter__()
    atexit.register(running.__exit__, None, None, None)
    return started


def missing_reason() -> str:
    """Return the reason for which tests are skipped, with the command that installs PostgreSQL."""
    return (
        f"PostgreSQL's server programs are not installed: Debian's package {PACKAGE}, "
        f"or {VARIABLE} as the folder of initdb and postgres (python -m tests.postgres)"
    )


def server_programs() -> Path | None:
    """Return the folder with `initdb` and `postgres`, or None if they are not installed.

    Raises:
        FileNotFoundError: ``TAP_CORE_POSTGRES_BIN`` names a folder without them.
    """
    if folder := os.environ.get(VARIABLE):
        if not _has_programs(Path(folder)):
            message = f"{VARIABLE}={folder}: the folder lacks initdb or postgres"
            raise FileNotFoundError(message)
        return Path(folder)
    return next(filter(_has_programs, _list_folders()), None)


def _list_folders() -> Iterator[Path]:
    """Yield folders that may contain the programs; that of Debian's package is not on the PATH."""
    if program := shutil.which("initdb"):
        yield Path(program).resolve().parent
    if shutil.which("pg_config"):
        yield Path(_run(["pg_config", "--bindir"]).stdout.strip() or "/nowhere")
    debian = Path("/usr/lib/postgresql")
    yield from sorted(
        debian.glob("*/bin"),
        key=lambda folder: float(folder.parent.name) if folder.parent.name.isdigit() else 0,
        reverse=True,
    )


def _run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program and return its result, also if it fails."""
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, **options}
    return subprocess.run(command, check=False, **options)


def _has_programs(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres"))


# --------------------------------------------------------------------------- running
@contextlib.contextmanager
def server(**settings: str) -> Iterator[Server]:
    """Run a separate server with additional settings of `postgresql.conf`.

    Raises:
        FileNotFoundError: The server programs are not installed.
        RuntimeError: The server does not start; the message has the end of its log.
    """
    programs = server_programs()
    if programs is None:
        raise FileNotFoundError(missing_reason())
    folder, password = _make_folder(), secrets.token_urlsafe(12)
    try:
        _make_cluster(programs, folder, password)
        keeper, started = _start(programs, folder, password, {**SETTINGS, **settings})
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    try:
        yield started
    finally:
        _stop(keeper)


def _make_folder() -> Path:
    """Create a temporary folder that the server's user can access, and return it."""
    candidates = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
    fits = [
        candidate
        for candidate in candidates
        if candidate.is_dir() and _is_open(candidate.resolve())
    ]
    folder = Path(tempfile.mkdtemp(prefix="tap-core-postgres-", dir=(fits or candidates)[0]))
    if user := _server_user():
        shutil.chown(folder, user)
    return folder


def _is_open(folder: Path) -> bool:
    return not _server_user() or all(path.stat().st_mode & 1 for path in (folder, *folder.parents))


@cache
def _server_user() -> str | None:
    """Return the user of the server if this process runs as root, which PostgreSQL rejects."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    message = "PostgreSQL does not run as root, and there is no user postgres or nobody"
    raise RuntimeError(message)


def _as_server_user() -> dict[str, Any]:
    """Return the arguments with which `subprocess` starts a program as the server's user."""
    name = _server_user()
    if name is None:
        return {}
    entry = pwd.getpwnam(name)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _make_cluster(programs: Path, folder: Path, password: str) -> None:
    password_file = folder / "password"
    password_file.write_text(password)
    if user := _server_user():
        shutil.chown(password_file, user)
    command = [str(programs / "initdb"), "-D", str(folder / "data"), "-U", USER, "--no-sync"]
    command += [
        "--auth=scram-sha-256",
        f"--pwfile={password_file}",
        "--encoding=UTF8",
        "--no-locale",
    ]
    process = _run(command, cwd=folder, **_as_server_user())
    password_file.unlink()
    if process.returncode:
        message = f"initdb ended with {process.returncode}: {process.stderr}"
        raise RuntimeError(message)


def _start(
    programs: Path, folder: Path, password: str, settings: dict[str, str]
) -> tuple[subprocess.Popen[bytes], Server]:
    """Start the server on a free port; try another port if a different process takes it first."""
    for _ in range(ATTEMPTS):
        port = _free_port()
        options = [f"--{key}={value}" for key, value in {**settings, "port": str(port)}.items()]
        keeper = subprocess.Popen(
            [sys.executable, __file__, "--keep", str(programs / "postgres"), str(folder), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
            start_new_session=True,  # Ctrl-C signals only the tests, which stop the server
        )
        started = Server(port, password, folder)
        if _wait_until_ready(keeper, started):
            return keeper, started
    errors = started.log.read_text(errors="replace") if started.log.exists() else "(nothing)"
    message = f"PostgreSQL does not start: {errors[-2000:]}"
    raise RuntimeError(message)


def _wait_until_ready(keeper: subprocess.Popen[bytes], started: Server) -> bool:
    """Wait until the server accepts connections; return False if it has ended."""
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
    """Run the server until it ends or standard input is closed; then remove its files."""
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
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda signum, _: signals.append(signum))
    while not signals and child.poll() is None and not select.select([0], [], [], 0.2)[0]:
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
    """Return the command before `apt-get`, such as sudo; None if packages cannot be installed."""
    if shutil.which("apt-get") is None:
        return None
    if os.geteuid() == 0:
        return []
    sudo = ["sudo", "--non-interactive"]
    if shutil.which("sudo") and _run([*sudo, "true"]).returncode == 0:
        return sudo
    return None


def _install(prefix: list[str], package: str) -> bool:
    """Install a Debian package; the package lists are updated only if the first attempt fails."""
    apt = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y"]
    install = [*apt, "install", "--no-install-recommends", package]
    for command in (install, [*apt, "update"], install):
        process = _run(command)
        if process.returncode == 0 and command is install:
            return True
    print(process.stdout[-2000:], process.stderr[-2000:], file=sys.stderr)
    return False


def _install_plugin(name: str) -> None:
    """Install an output plugin of logical replication; without it, its benchmarks are skipped."""
    programs, prefix = server_programs(), _may_install()
    if programs is None or (programs.parent / "lib" / f"{name}.so").exists():
        return
    package = f"{PACKAGE}-{programs.parent.name}-{name}"
    if prefix is None or not _install(prefix, package):
        print(f"not installed: {package}")


def main(plugins: list[str]) -> int:
    """Install the server programs if necessary, and return the exit code.

    It is 1 if the installation fails, and 0 if this user cannot install packages.

    Args:
        plugins: Names of output plugins of logical replication, such as ``wal2json``.
    """
    if server_programs() is None:
        prefix = _may_install()
        if prefix is None:
            print(f"not installed: {missing_reason()}")
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
