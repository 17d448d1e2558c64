"""The wheel and the sdist: their content, their metadata, and the README that an index shows."""

from __future__ import annotations

import re
import subprocess
import tarfile
from email.message import Message
from email.parser import BytesParser
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest

import tap_core
import target_spark
from tests import peers
from tests.project.distributions import build_distribution

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "https://github.com/tap-core-sdk/tap-core-sdk"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_distribution("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_distribution("sdist", tmp_path_factory.mktemp("sdist"))


def read_metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        return BytesParser().parsebytes(archive.read(name))


def read_description(wheel: Path) -> str:
    description = read_metadata(wheel).get_payload()
    assert isinstance(description, str)
    return description


@pytest.mark.slow
def test_wheel_contains_both_packages_and_their_data(wheel: Path) -> None:
    names = set(ZipFile(wheel).namelist())
    for package in ("tap_core", "target_spark"):
        expected = {
            str(path.relative_to(ROOT))
            for path in (ROOT / package).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert expected <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_readme_of_the_index_has_only_absolute_links_that_exist_in_the_repository(
    wheel: Path,
) -> None:
    prose = re.sub(r"```.*?```", "", read_description(wheel), flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", prose) if not link.startswith("#")]
    version = read_metadata(wheel)["Version"]
    start = f"{REPOSITORY}/blob/v{version}/"
    assert f"{start}docs/first-tap.md" in links
    for link in links:
        assert link.startswith("https://"), link
        if link.startswith(REPOSITORY):
            path = link.removeprefix(start).partition("#")[0]
            assert (ROOT / path).exists(), link


def test_readme_of_the_index_installs_from_the_index(wheel: Path) -> None:
    description = read_description(wheel)
    assert "pip install 'tap-core-sdk[spark]'" in description
    assert "wheels/" not in description
    assert "not published" not in description
    assert "<!--" not in description


def test_extras_of_the_readme_are_those_of_the_wheel(wheel: Path) -> None:
    rows = (ROOT / "README.md").read_text("utf-8").partition("| Extra |")[2].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in rows.splitlines()[2:]]
    named = [name for cell in cells for name in re.findall(r"`([\w-]+)`", cell)]
    assert sorted(named) == sorted(read_metadata(wheel).get_all("Provides-Extra") or [])


@pytest.mark.parametrize("package", [tap_core, target_spark])
def test_version_of_a_package_is_that_of_the_distribution(package) -> None:
    assert package.__version__ == metadata.version("tap-core-sdk")
    with pytest.raises(AttributeError, match=f"'{package.__name__}' has no attribute 'version'"):
        getattr(package, "version")  # noqa: B009  # a plain access would be an unused expression


@pytest.mark.slow
@pytest.mark.thorough
def test_sdist_builds_the_wheel_that_the_repository_builds(
    wheel: Path, sdist: Path, tmp_path: Path
) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = tmp_path.iterdir()
    rebuilt = build_distribution("wheel", tmp_path / "dist", source)
    assert rebuilt.name == wheel.name
    with ZipFile(wheel) as first, ZipFile(rebuilt) as second:
        assert second.namelist() == first.namelist()
        changed = [name for name in first.namelist() if first.read(name) != second.read(name)]
    assert changed == []


@pytest.mark.slow
@pytest.mark.thorough
def test_sdist_has_sources_tests_and_documents_and_nothing_that_tools_made(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    for expected in ("README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "docs/target.md"):
        assert expected in names
    generated = re.compile(
        r"(^|/)(__pycache__|\.venv[^/]*|\.git|[^/]*\.egg-info|\.env|[^/]*\.pyc)(/|$)"
    )
    assert [name for name in names if generated.search(name)] == []


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.thorough
def test_twine_accepts_wheel_and_sdist(wheel: Path, sdist: Path) -> None:
    python = peers.peer_python("twine")
    if python is None:
        pytest.skip(peers.missing_reason("twine"))
    command = [str(python), "-m", "twine", "check", "--strict", str(wheel), str(sdist)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stdout.count("PASSED") == 2, process.stdout
