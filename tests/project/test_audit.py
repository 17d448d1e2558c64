"""`make audit` against a stand-in for the feed of advisories.

The real feed is not reachable from the tests. The server implements the used part of OSV's
protocol: a query, its response, and further pages by a token. One test runs the real pip-audit if
`make audit` has installed it; the others run a stand-in that queries the same feed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.project.locks import ROOT, read_lock
from tests.server_thread import serve_in_thread

SCRIPT = ROOT / "scripts" / "audit.py"
KNOWN = ("PyPI", "jinja2", "2.4.1")

# Behaves as pip-audit with these arguments: it queries the feed for each line and prints JSON.
STAND_IN = """\
import json, sys, urllib.request
path, feed = sys.argv[2], sys.argv[sys.argv.index("--osv-url") + 1]
out = []
for line in open(path):
    name, version = line.strip().split("==")
    query = {"package": {"name": name, "ecosystem": "PyPI"}, "version": version}
    with urllib.request.urlopen(feed, json.dumps(query).encode()) as answer:
        found = json.load(answer).get("vulns", [])
    vulns = [
        {"id": v["id"], "aliases": [], "fix_versions": ["9"], "description": v["summary"]}
        for v in found
    ]
    out.append({"name": name, "version": version, "vulns": vulns})
print(json.dumps({"dependencies": out}))
sys.exit(any(entry["vulns"] for entry in out))
"""


class Feed(BaseHTTPRequestHandler):
    """Feed with the advisories of a dict."""

    advisories: ClassVar[dict[tuple[str, str, str], str]] = {}
    queries: ClassVar[list[tuple[str, str, str]]] = []

    def do_POST(self) -> None:
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        package = query["package"]
        pin = (package["ecosystem"], package["name"], query["version"])
        self.queries.append(pin)
        page: dict[str, Any] = {}
        if pin in self.advisories and "page_token" not in query:
            withdrawn = {
                "id": "GONE-1",
                "summary": "a mistake",
                "withdrawn": "2026-01-01T00:00:00Z",
            }
            page = {"vulns": [withdrawn], "next_page_token": "2"}
        elif pin in self.advisories:
            page = {"vulns": [{"id": self.advisories[pin], "summary": "a hole"}]}
        body = json.dumps(page).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def feed() -> Iterator[str]:
    Feed.advisories = {KNOWN: "OSV-0"}
    Feed.queries = []
    with serve_in_thread(ThreadingHTTPServer(("127.0.0.1", 0), Feed)) as server:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/query"


@pytest.fixture
def pip_audit(tmp_path: Path) -> Path:
    program = tmp_path / "pip-audit"
    program.write_text(f"#!{sys.executable}\n{STAND_IN}")
    program.chmod(0o755)
    return program


def audit(feed: str, program: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--pip-audit", str(program), "--feed", feed],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_audit_queries_every_locked_package_and_jar(feed: str, pip_audit: Path) -> None:
    """SEC20: the packages for all Python versions and the jars of all formats are queried."""
    process = audit(feed, pip_audit)
    assert process.returncode == 0, process.stderr
    assert "0 advisories" in process.stdout
    queries = set(Feed.queries)
    for name in ("requirements.lock", "requirements-dev.lock", "requirements-audit.lock"):
        for package in read_lock(name):
            assert ("PyPI", package.name, str(package.version)) in queries
    jars = {name for ecosystem, name, _ in queries if ecosystem == "Maven"}
    assert {"io.delta:delta-storage", "org.apache.hadoop:hadoop-aws"} <= jars
    assert "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13" in jars


def test_advisories_fail_the_audit_and_name_their_package(feed: str, pip_audit: Path) -> None:
    """SEC20: an advisory for a package or a jar fails the audit and is named."""
    [jinja] = {p.version for p in read_lock("requirements-dev.lock") if p.name == "jinja2"}
    jar = ("Maven", "io.delta:delta-storage", "4.4.0")
    Feed.advisories |= {("PyPI", "jinja2", str(jinja)): "OSV-1", jar: "OSV-2"}
    # pip-audit reads only the first page, and so does the stand-in.
    process = audit(feed, pip_audit)
    assert process.returncode == 1
    assert "io.delta:delta-storage 4.4.0: OSV-2: a hole" in process.stdout
    assert f"jinja2 {jinja}: GONE-1" in process.stdout
    assert "2 advisories" in process.stdout


@pytest.mark.parametrize(
    "feed_address", ["http://127.0.0.1:1/v1/query", "http://feed.invalid/v1/query"]
)
def test_unreachable_feed_fails_the_audit(feed_address: str, pip_audit: Path) -> None:
    """SEC20: without a feed the audit reports that nothing was checked."""
    process = audit(feed_address, pip_audit)
    assert process.returncode == 3
    assert "NOT CHECKED" in process.stderr
    assert feed_address in process.stderr
    assert "advisories\n" not in process.stdout


def test_feed_without_known_advisories_fails_the_audit(feed: str, pip_audit: Path) -> None:
    """SEC20: a feed without an advisory for a vulnerable release is not trusted."""
    Feed.advisories = {}
    process = audit(feed, pip_audit)
    assert process.returncode == 3
    assert "has no advisory for jinja2 2.4.1" in process.stderr


def test_failing_pip_audit_fails_the_audit(feed: str, tmp_path: Path) -> None:
    """SEC20: the audit fails if pip-audit itself fails."""
    program = tmp_path / "pip-audit"
    program.write_text("#!/bin/sh\necho 'requests.exceptions.ProxyError: no route' >&2\nexit 1\n")
    program.chmod(0o755)
    process = audit(feed, program)
    assert process.returncode == 3
    assert "pip-audit: requests.exceptions.ProxyError: no route" in process.stderr


REAL = ROOT / ".venv-audit" / "bin" / "pip-audit"


@pytest.mark.skipif(not REAL.exists(), reason="pip-audit is not installed: make audit")
def test_real_pip_audit_queries_the_feed(feed: str) -> None:
    """SEC20: pip-audit accepts the project's files and the feed's URL, and reports advisories."""
    Feed.advisories = {KNOWN: "OSV-0"}
    process = audit(feed, REAL)
    assert process.returncode == 0, process.stderr
    queries = {name for ecosystem, name, _ in Feed.queries if ecosystem == "PyPI"}
    assert {"jinja2", "pyspark", "rpds-py"} <= queries
