"""The oldest release of each dependency without known vulnerabilities.

The table names the advisory; pyproject.toml must not admit older releases, and no lock file may
have one. `make audit` queries a feed for advisories that are not in the table yet.
"""

from __future__ import annotations

import sys
from itertools import chain
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.project.locks import LOCKS, ROOT, read_lock

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Floor(NamedTuple):
    """The first release of a package with a fix for an advisory."""

    package: str
    least: str
    advisory: str
    also_refused: tuple[str, ...] = ()
    """Later releases without the fix, if it was made in several release lines."""


FLOORS = (
    Floor("jinja2", "3.1.5", "CVE-2024-56326: str.format out of the sandbox"),
    Floor("jinja2", "3.1.6", "CVE-2025-27516: |attr out of the sandbox"),
    Floor("requests", "2.32.0", "CVE-2024-35195: verify=False stays for a session"),
    Floor("requests", "2.32.4", "CVE-2024-47081: .netrc credentials to another host"),
    Floor("requests", "2.33.0", "CVE-2026-25645: predictable temporary file"),
    Floor("urllib3", "2.6.3", "CVE-2026-21441: redirects are unpacked without a bound"),
    Floor("urllib3", "2.7.0", "CVE-2026-44431: credentials of a pool follow a redirect"),
    Floor("urllib3", "2.7.0", "CVE-2026-44432: streams are unpacked without a bound"),
    Floor("python-dotenv", "1.2.2", "CVE-2026-28684: set_key follows links"),
    Floor("pyyaml", "5.4", "CVE-2020-14343: Python objects of the full loader"),
    Floor("grpcio", "1.65.4", "CVE-2024-7246: headers of one client poison those of others"),
    Floor("grpcio", "1.68.1", "CVE-2024-11407: data of a call corrupted in transmission"),
    Floor("protobuf", "5.29.5", "CVE-2025-4565: unbounded recursion", ("6.30.0", "6.31.0")),
    Floor(
        *("protobuf", "5.29.6", "CVE-2026-0994: unbounded recursion of Any"),
        ("6.30.2", "6.31.1", "6.32.1", "6.33.0", "6.33.4"),
    ),
    Floor("cryptography", "44.0.1", "CVE-2024-12797: OpenSSL of the wheels"),
    Floor("cryptography", "46.0.5", "CVE-2026-26007: points of weak subgroups"),
    Floor("cryptography", "46.0.6", "CVE-2026-34073: name constraints of wildcards"),
    Floor("cryptography", "46.0.7", "CVE-2026-39892: overflow with odd buffers"),
    Floor("cryptography", "50.0.0", "CVE-2026-69247: oracle of PKCS#7 decryption"),
    Floor("pyjwt", "2.12.0", "CVE-2026-32597: unknown critical headers"),
    Floor("pyjwt", "2.15.0", "CVE-2026-101918: tokens read without their signature"),
    Floor("pyarrow", "14.0.1", "CVE-2023-47248: files of Python objects run code"),
    Floor("pyspark", "4.0.0", "CVE-2025-55039: RPC encryption without integrity"),
    Floor("simpleeval", "1.0.5", "CVE-2026-32640: modules out of the sandbox"),
)
TRANSITIVE_FLOORS = (
    Floor("certifi", "2024.7.4", "CVE-2024-39689: a root that is not trusted any more"),
    Floor("idna", "3.7", "CVE-2024-3651: quadratic time"),
    Floor("pygments", "2.20.0", "CVE-2026-4539: patterns of one lexer"),
    Floor("setuptools", "78.1.1", "CVE-2025-47273: paths out of the download folder"),
)
"""Transitive dependencies: they are in the locks but not in pyproject.toml."""


def list_declared_requirements() -> dict[str, list[Requirement]]:
    """Return the requirements of the project, all extras included, by package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    requirements: dict[str, list[Requirement]] = {}
    extras = project["optional-dependencies"].values()
    for text in (*project["dependencies"], *chain.from_iterable(extras)):
        requirement = Requirement(text)
        requirements.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return requirements


def name_floor(floor: Floor) -> str:
    return f"{floor.package}-{floor.advisory.partition(':')[0]}"


@pytest.mark.parametrize("floor", FLOORS, ids=name_floor)
def test_requirements_exclude_vulnerable_releases(floor: Floor) -> None:
    """SEC20: lower bounds of requirements exclude vulnerable releases."""
    requirements = list_declared_requirements()[floor.package]
    for requirement in requirements:
        lowest = [Version(s.version) for s in requirement.specifier if s.operator == ">="]
        assert lowest, requirement
        assert lowest[0] >= Version(floor.least), f"{requirement}: {floor.advisory}"
        for version in floor.also_refused:
            assert not requirement.specifier.contains(version), f"{version}: {floor.advisory}"


@pytest.mark.parametrize("floor", [*FLOORS, *TRANSITIVE_FLOORS], ids=name_floor)
def test_locks_contain_no_vulnerable_release(floor: Floor) -> None:
    """SEC20: locked releases have no known vulnerability."""
    locked_versions = [
        (name, package.version)
        for name in LOCKS
        for package in read_lock(name)
        if package.name == floor.package
    ]
    assert locked_versions
    for name, version in locked_versions:
        assert version >= Version(floor.least), f"{name}: {floor.advisory}"
        assert str(version) not in floor.also_refused, f"{name}: {floor.advisory}"
