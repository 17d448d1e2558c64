"""An editor shows a documented definition for each member that tap authors declare.

The language server is that of basedpyright, a real process which speaks the Language Server
Protocol over its standard streams.
"""

from __future__ import annotations

import json
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest

import tap_core

SERVER = Path(sysconfig.get_path("scripts")) / "basedpyright-langserver"
ROOT = Path(tap_core.__file__).resolve().parents[1]
MEMBERS = {
    "Stream": ["schema", "primary_keys", "replication_key", "partitions", "is_sorted", "name"],
    "RESTStream": ["schema", "replication_key", "url_base", "records_jsonpath", "http_headers"],
}

pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="basedpyright is not installed")


class LanguageServer:
    """Language server as a child process."""

    def __init__(self, folder: Path, source: Path) -> None:
        self.source = source
        self._process = subprocess.Popen(
            [SERVER, "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder
        )
        self._number = 0
        self.request(
            "initialize",
            {
                "processId": None,
                "rootUri": folder.as_uri(),
                "workspaceFolders": [{"uri": folder.as_uri(), "name": folder.name}],
                "capabilities": {},
            },
        )
        self.notify("initialized", {})

    def close(self) -> None:
        with suppress(OSError):
            self.request("shutdown", None)
            self.notify("exit", None)
        self._process.kill()
        self._process.communicate()

    def notify(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def request(self, method: str, params: Any) -> Any:
        """Send a request and return its result; requests of the server get no settings."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        while True:
            message = self._receive()
            if "method" in message and "id" in message:
                items = (message.get("params") or {}).get("items", [])
                self._send({"id": message["id"], "result": [None] * len(items) or None})
            elif message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        length = 0
        while (line := self._process.stdout.readline().strip()) or not length:
            assert line or self._process.poll() is None, "the language server has ended"
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        message: dict[str, Any] = json.loads(self._process.stdout.read(length))
        return message


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanguageServer]:
    folder = tmp_path_factory.mktemp("author")
    settings = {"extraPaths": [str(ROOT)], "pythonVersion": "3.10"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    lines = ["from tap_core import RESTStream, Stream", ""]
    for kind, members in MEMBERS.items():
        lines += [f"def f_{kind}(stream: {kind}) -> None:"]
        lines += [f"    print(stream.{member})" for member in members]
    source = folder / "author.py"
    source.write_text("\n".join(lines) + "\n")
    server = LanguageServer(folder, source)
    try:
        document = {"languageId": "python", "version": 1, "text": source.read_text()}
        server.notify(
            "textDocument/didOpen", {"textDocument": {**document, "uri": source.as_uri()}}
        )
        yield server
    finally:
        server.close()


@pytest.mark.parametrize(
    ("kind", "member"), [(kind, member) for kind, names in MEMBERS.items() for member in names]
)
def test_definition_of_a_member_has_a_docstring(
    server: LanguageServer, kind: str, member: str
) -> None:
    source = server.source
    lines = source.read_text().splitlines()
    first = lines.index(f"def f_{kind}(stream: {kind}) -> None:")
    row = lines.index(f"    print(stream.{member})", first)
    position = {"line": row, "character": lines[row].index(member) + 1}
    where = {"textDocument": {"uri": source.as_uri()}, "position": position}

    locations = server.request("textDocument/definition", where)

    sorted_locations = sorted(locations, key=lambda location: location["range"]["start"]["line"])
    path = Path(unquote(urlparse(sorted_locations[0]["uri"]).path))
    text = path.read_text().splitlines()[sorted_locations[0]["range"]["start"]["line"] :]
    assert path.is_relative_to(ROOT / "tap_core"), path
    assert text[0].split(":")[0].split("(")[0].split()[-1] == member, text[0]
    assert '"""' in text[1], text[:2]
    hover = server.request("textDocument/hover", where)
    assert hover is not None
    assert len(str(hover["contents"])) > len(member) + 40, hover
