"""Look up the locked packages and the jars in a feed of security advisories (`make audit`).

Packages are looked up by pip-audit, jars by their Maven coordinates, both in a feed with OSV's API
(https://google.github.io/osv.dev/post-v1-query/). If a query fails, or the feed does not have a
known advisory, the result is "not checked", not "no advisories".

Exit codes: 0 no advisories; 1 advisories, which are listed; 3 not checked.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import requests

from target_spark.spark import jars

ROOT = Path(__file__).resolve().parents[1]
FEED = "https://api.osv.dev/v1/query"
TIMEOUT_SECONDS = 20
CLEAN, ADVISORIES, NOT_CHECKED = 0, 1, 3
LOCKS = ("requirements*.lock", "samples/*/*/requirements.lock", "samples/requirements.txt")


class FeedError(Exception):
    """Raised if the feed does not respond, or its response is not one of OSV's API."""


class Finding(NamedTuple):
    """Advisory for a package or jar of the project."""

    what: str
    advisory: str
    summary: str


class Pin(NamedTuple):
    """Package with a version."""

    ecosystem: str
    name: str
    version: str


KNOWN = Pin("PyPI", "jinja2", "2.4.1")
"""Release with known advisories. A feed without them may be an empty copy or a page of a proxy."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Look up all packages and jars, print the advisories, and return the exit code."""
    parser = argparse.ArgumentParser(description="Look up locked packages and jars in a feed.")
    parser.add_argument("--pip-audit", required=True, help="path of the pip-audit to use")
    parser.add_argument(
        "--feed",
        default=os.environ.get("AUDIT_OSV_URL", FEED),
        help="URL of OSV queries, for example of a mirror (variable AUDIT_OSV_URL)",
    )
    options = parser.parse_args(arguments)
    packages = sorted(set(read_locks(ROOT)))
    artifacts = sorted(set(list_jars()))
    try:
        check_feed(options.feed)
        findings = [
            *audit_packages(options.pip_audit, options.feed, packages),
            *audit_jars(options.feed, artifacts),
        ]
    except FeedError as error:
        print(
            f"NOT CHECKED: the feed of advisories {options.feed} could not be used: {error}."
            " The packages and jars may have advisories. Run this on a machine that can reach the"
            " feed, or set AUDIT_OSV_URL to the URL of a mirror.",
            file=sys.stderr,
        )
        return NOT_CHECKED
    for finding in findings:
        print(f"{finding.what}: {finding.advisory}: {finding.summary}")
    print(f"{len(packages)} packages and {len(artifacts)} jars: {len(findings)} advisories")
    return ADVISORIES if findings else CLEAN


def check_feed(feed: str) -> None:
    """Raise FeedError unless the feed has an advisory for `KNOWN`."""
    if not query_feed(feed, KNOWN):
        raise FeedError(f"it has no advisory for {KNOWN.name} {KNOWN.version}")


def read_locks(root: Path) -> Iterator[Pin]:
    """Yield the packages of all lock files, for all Python versions."""
    for path in (path for pattern in LOCKS for path in sorted(root.glob(pattern))):
        text = path.read_text("utf-8")
        for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE):
            yield Pin("PyPI", name, version)


def list_jars() -> Iterator[Pin]:
    """Yield all jars that target-spark downloads, for each format and minor version of Spark."""
    coordinates = {name for library in jars.every_library() for name in library.all_jars}
    for text in sorted(coordinates):
        group, artifact, version = text.split(":")
        yield Pin("Maven", f"{group}:{artifact}", version)


def audit_packages(program: str, feed: str, pins: Sequence[Pin]) -> Iterator[Finding]:
    """Yield the advisories that pip-audit finds for packages."""
    for part in _split_by_version(pins):
        for package in _run_pip_audit(program, feed, part):
            for advisory in package.get("vulns", ()):
                names = ", ".join([advisory["id"], *advisory.get("aliases", ())])
                fixed = ", ".join(advisory.get("fix_versions", ())) or "no release"
                release = f"{package['name']} {package['version']}"
                yield Finding(
                    release, names, f"{advisory['description'][:200]} (fixed in: {fixed})"
                )


def audit_jars(feed: str, pins: Iterable[Pin]) -> Iterator[Finding]:
    """Yield the advisories that the feed has for jars."""
    for pin in pins:
        for advisory in query_feed(feed, pin):
            names = ", ".join([str(advisory["id"]), *advisory.get("aliases", ())])
            summary = advisory.get("summary") or advisory.get("details") or "no description"
            yield Finding(f"{pin.name} {pin.version}", names, str(summary)[:200])


def query_feed(feed: str, pin: Pin) -> list[dict]:
    """Return the advisories of a package that were not withdrawn.

    Raises:
        FeedError: The feed cannot be reached, or its response is not one of OSV's API.
    """
    query = {"package": {"name": pin.name, "ecosystem": pin.ecosystem}, "version": pin.version}
    advisories: list[dict] = []
    while True:
        try:
            answer = requests.post(feed, json=query, timeout=TIMEOUT_SECONDS, allow_redirects=False)
            answer.raise_for_status()
            page = answer.json()
        except (requests.RequestException, ValueError) as error:
            raise FeedError(f"{type(error).__name__}: {error}") from error
        if not isinstance(page, dict) or not isinstance(page.get("vulns", []), list):
            raise FeedError("its response is not one of OSV's API")
        advisories += [entry for entry in page.get("vulns", []) if not entry.get("withdrawn")]
        if not page.get("next_page_token"):
            return advisories
        query["page_token"] = page["next_page_token"]


def _split_by_version(pins: Iterable[Pin]) -> Iterator[list[Pin]]:
    """Yield lists without two versions of the same package, which pip-audit does not accept."""
    versions: dict[str, list[Pin]] = {}
    for pin in pins:
        versions.setdefault(pin.name, []).append(pin)
    for number in range(max(map(len, versions.values()), default=0)):
        yield [releases[number] for releases in versions.values() if len(releases) > number]


def _run_pip_audit(program: str, feed: str, pins: Iterable[Pin]) -> list[dict]:
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        # Markers are omitted, so that packages for other Python versions are looked up, too.
        file.writelines(f"{pin.name}=={pin.version}\n" for pin in pins)
        file.flush()
        arguments = ["--requirement", file.name, "--no-deps", "--disable-pip", "--format", "json"]
        service = ["--vulnerability-service", "osv", "--osv-url", feed]
        process = subprocess.run(
            [program, *arguments, *service, "--progress-spinner", "off"],
            capture_output=True,
            text=True,
            check=False,
        )
    try:
        return json.loads(process.stdout)["dependencies"]
    except (ValueError, KeyError) as error:
        last = (process.stderr.strip().splitlines() or ["no output"])[-1]
        raise FeedError(f"pip-audit: {last}") from error


if __name__ == "__main__":
    sys.exit(main())
