"""A WebHDFS file system in a folder, whose responses can be wrong.

A rename that makes an Iceberg commit visible can fail before it is done, or be done and fail.
Source: Hadoop's "WebHDFS REST API".
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

__all__ = ["FileSystem"]

_JSON, _BYTES = "application/json", "application/octet-stream"
_SAYS = {
    404: ("FileNotFoundException", "java.io.FileNotFoundException"),
    403: ("FileAlreadyExistsException", "org.apache.hadoop.fs.FileAlreadyExistsException"),
    503: ("IOException", "java.io.IOException"),
}


class FileSystem(ThreadingHTTPServer):
    """Files below ``root``; ``faults`` are the outcomes of the next renames of commits.

    ``before``: the rename fails and is not done; ``after``: it is done and fails; ``""``: it is
    done. Without ``deletes`` no file is deleted.
    """

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root = root
        self.faults: list[str] = []
        self.deletes = True
        self._rename = threading.Lock()

    @property
    def address(self) -> str:
        """The address of the root for Spark."""
        return f"webhdfs://127.0.0.1:{self.server_port}"

    def rename(self, source: Path, target: Path) -> bool | None:
        """Rename a file as HDFS does, never onto another; return None if it fails."""
        with self._rename:
            is_commit = target.name.endswith(".metadata.json")
            fault = self.faults.pop(0) if is_commit and self.faults else ""
            if fault == "before":
                return None
            can_be = source.exists() and not target.exists()
            if can_be:
                source.rename(target)
            return None if fault else can_be


class _Handler(BaseHTTPRequestHandler):
    server: FileSystem
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args: Any) -> None:
        """Log nothing."""

    @property
    def _place(self) -> Path:
        return self.server.root / unquote(urlsplit(self.path).path).removeprefix("/webhdfs/v1/")

    @property
    def _asked(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.path).query))

    def do_GET(self) -> None:
        path, query = self._place, self._asked
        operation = query["op"].upper()
        if not path.exists():
            self._fail(404)
        elif operation == "OPEN" and "here" not in query:
            self._send_on()
        elif operation == "OPEN":
            self._answer(path.read_bytes()[int(query.get("offset", 0)) :], _BYTES)
        elif operation == "LISTSTATUS":
            files = sorted(path.iterdir()) if path.is_dir() else [path]
            statuses = [_status(file, file.name if path.is_dir() else "") for file in files]
            self._report_outcome(FileStatuses={"FileStatus": statuses})
        elif operation == "GETFILESTATUS":
            self._report_outcome(FileStatus=_status(path, ""))
        else:
            self._report_outcome(BlockLocations={"BlockLocation": [_block(path.stat().st_size)]})

    def do_PUT(self) -> None:
        path, query = self._place, self._asked
        operation = query["op"].upper()
        if operation == "CREATE" and "here" not in query:
            self._send_on()
        elif operation == "CREATE":
            self._create(path, overwrites=query.get("overwrite") == "true")
        elif operation == "MKDIRS":
            path.mkdir(parents=True, exist_ok=True)
            self._report_outcome(boolean=True)
        elif operation == "RENAME":
            renamed = self.server.rename(path, self.server.root / query["destination"].lstrip("/"))
            self._fail(503) if renamed is None else self._report_outcome(boolean=renamed)
        else:
            self._answer(b"", _BYTES)

    def do_DELETE(self) -> None:
        path = self._place
        was_there = path.exists()
        if path.is_dir():
            shutil.rmtree(path)
        elif self.server.deletes:
            path.unlink(missing_ok=True)
        self._report_outcome(boolean=was_there)

    def _create(self, path: Path, *, overwrites: bool) -> None:
        data = b"".join(self._chunks())
        if path.exists() and not overwrites:
            self._fail(403)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self._answer(b"", _BYTES, 201)

    def _chunks(self) -> Iterator[bytes]:
        if "Content-Length" in self.headers:
            yield self.rfile.read(int(self.headers["Content-Length"]))
            return
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _send_on(self) -> None:
        """Redirect to the server that has the bytes, which is this one."""
        self.send_response(307)
        url = f"http://127.0.0.1:{self.server.server_port}{self.path}&here=1"
        self.send_header("Location", url)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _report_outcome(self, **fields: Any) -> None:
        self._answer(json.dumps(fields).encode(), _JSON)

    def _fail(self, code: int) -> None:
        name, of_java = _SAYS[code]
        fields = {"exception": name, "javaClassName": of_java, "message": quote(self.path)}
        self._answer(json.dumps({"RemoteException": fields}).encode(), _JSON, code)

    def _answer(self, data: bytes, kind: str, code: int = 200) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _status(file: Path, name: str) -> dict[str, Any]:
    stat, kind = file.stat(), "DIRECTORY" if file.is_dir() else "FILE"
    fields = {"type": kind, "pathSuffix": name, "owner": "x", "group": "x", "permission": "777"}
    times = {"accessTime": 0, "modificationTime": int(stat.st_mtime * 1000)}
    length = 0 if file.is_dir() else stat.st_size
    return {"length": length, "blockSize": 1 << 20, "replication": 1, **fields, **times}


def _block(size: int) -> dict[str, Any]:
    hosts = {"hosts": ["localhost"], "names": ["localhost:1"], "topologyPaths": ["/x/localhost:1"]}
    return {"cachedHosts": [], "corrupt": False, "length": size, "offset": 0, **hosts}
