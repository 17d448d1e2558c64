"""Canary secrets for settings, and the search for them in output, files and command lines."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

__all__ = [
    "CANARIES",
    "command_lines",
    "leaks",
    "leaks_in_folder",
    "spark_settings",
    "tap_settings",
]

_PLACES = (
    *("user_info", "parameter", "header", "body", "jdbc", "jdbc_url", "azure", "google", "s3"),
    *("s3_encryption", "iceberg", "refresh", "client", "store", "connection", "nested", "json"),
    *("access", "rotated"),
)
CANARIES: Mapping[str, str] = {
    place: f"zq{place.title().replace('_', '')}Kn4ry+/7%{number:02}="
    for number, place in enumerate(_PLACES)
}
"""Place to value; each begins with letters that survive every encoding but Base64."""


def tap_settings(url: str) -> dict[str, Any]:
    """Return the settings of the tap; a user with a password is inserted into ``url``."""
    scheme, _, address = url.partition("://")
    login = quote(CANARIES["user_info"], safe="")
    return {
        "url": f"{scheme}://someone:{login}@{address}",
        "k": CANARIES["parameter"],
        "x_value": CANARIES["header"],
        "sent": CANARIES["body"],
        "refresh_token": CANARIES["refresh"],
        "client_secret": CANARIES["client"],
        "database": f"jdbc:postgresql://h:5432/db?user=u&password={CANARIES['jdbc']}",
        "conn": f"postgres://u:{quote(CANARIES['connection'], safe='')}@h/db",
        "credentials": {"kind": "plain", "deep": [{"value": CANARIES["nested"]}]},
        "service": f'{{"type": "service", "private_key": "{CANARIES["json"]}"}}',
    }


def spark_settings() -> dict[str, str]:
    """Return Spark settings with the secrets of storages and catalogs."""
    return {
        "spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net": CANARIES["azure"],
        "spark.hadoop.fs.gs.auth.service.account.private.key": CANARIES["google"],
        "spark.hadoop.fs.s3a.secret.key": CANARIES["s3"],
        "spark.hadoop.fs.s3a.encryption.key": CANARIES["s3_encryption"],
        "spark.sql.catalog.rest.credential": f"client:{CANARIES['iceberg']}",
        "spark.sql.catalog.other.uri": f"jdbc:mysql://h/db?user=u&password={CANARIES['jdbc']}",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:x://u:{CANARIES['jdbc_url']}@h/db",
    }


def _forms(value: str) -> Iterator[bytes]:
    """Yield the forms to search for: the value's letters, and these in Base64 at each offset."""
    letters = value.partition("+")[0].encode()
    yield letters
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + letters)
        yield encoded[(offset * 8 + 5) // 6 : (offset + len(letters)) * 8 // 6]


_FORMS = {place: tuple(_forms(value)) for place, value in CANARIES.items()}


def leaks(data: bytes | str) -> list[str]:
    """Return the names of the canaries that the data contains."""
    data = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
    return [form_name for form_name, forms in _FORMS.items() if any(form in data for form in forms)]


def leaks_in_folder(folder: Path, *args: Path) -> dict[str, list[str]]:
    """Return the canaries in each file of a folder, except the input files ``args``."""
    files = [path for path in folder.rglob("*") if path.is_file() and path not in args]
    leaks_by_file = {str(path.relative_to(folder)): leaks(path.read_bytes()) for path in files}
    leaks_by_file |= {f"name of {path.name}": leaks(path.name) for path in files}
    return {name: forms for name, forms in leaks_by_file.items() if forms}


@contextmanager
def command_lines(seconds: float = 0.05) -> Iterator[list[bytes]]:
    """Collect, while the block runs, the command lines of all processes that hold a secret."""
    leaking_lines: list[bytes] = []
    searched: set[bytes] = set()
    over = threading.Event()

    def sample() -> None:
        while not over.wait(seconds):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    line = path.read_bytes()
                except OSError:
                    continue
                if line not in searched:
                    searched.add(line)
                    leaking_lines.extend([line] if leaks(line) else [])

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield leaking_lines
    finally:
        over.set()
        thread.join()
