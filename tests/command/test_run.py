"""`tap-core run` runs installed plugins that import singer_sdk, unchanged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tap_core.compat.import_alias import search_working_directory

ROOT = Path(__file__).parents[2]
TAP = '''
from __future__ import annotations

import typing as t

import singer_sdk.typing as th_by_module
from singer_sdk import Stream, Tap
from singer_sdk import typing as th
from singer_sdk.helpers.types import Context
from singer_sdk.streams import Stream as SameStream
from singer_sdk.streams.core import REPLICATION_INCREMENTAL, Stream as CoreStream

assert th is th_by_module
assert Stream is SameStream is CoreStream

if t.TYPE_CHECKING:
    from singer_sdk.no_such_module import Nothing


class Numbers(Stream):
    """Three of them."""

    name = "numbers"
    primary_keys = ("id",)
    schema = th.PropertiesList(th.Property("id", th.IntegerType)).to_dict()

    def get_records(self, context: Context | None):
        yield from ({"id": n} for n in range(self.config["count"]))


class TapNumbers(Tap):
    """A tap that knows nothing of tap_core."""

    name = "tap-numbers"
    config_jsonschema = th.PropertiesList(
        th.Property("count", th.IntegerType, required=True)
    ).to_dict()

    def discover_streams(self):
        return [Numbers(self)]


def main():
    TapNumbers.cli()
'''


ALIASED = """
import sys
import types

from tap_core.compat import import_alias

sys.modules["singer_sdk"] = types.ModuleType("singer_sdk")
try:
    import_alias.install_import_alias()
except RuntimeError:
    del sys.modules["singer_sdk"]
else:
    raise SystemExit("installed behind the real one")
import_alias.install_import_alias()
import_alias.install_import_alias()
assert len([finder for finder in sys.meta_path if type(finder).__name__ == "_Alias"]) == 1

import singer_sdk.streams
import tap_core.streams

assert singer_sdk is tap_core
assert singer_sdk.streams is tap_core.streams
assert tap_core.__spec__.name == tap_core.__name__ == "tap_core"
assert tap_core.streams.__spec__.name == "tap_core.streams"
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of installed packages: a tap with its console script, and a broken singer_sdk."""
    package = tmp_path / "tap_numbers"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "tap.py").write_text(TAP)
    info = tmp_path / "tap_numbers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tap-numbers\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[console_scripts]\n"
        "tap-numbers = tap_numbers.tap:TapNumbers.cli\n"
        "tap-numbers-main = tap_numbers.tap:main\n"
    )
    real = tmp_path / "singer_sdk"
    real.mkdir()
    (real / "__init__.py").write_text("raise AssertionError('the real one was imported')")
    (tmp_path / "config.json").write_text('{"count": 3}')
    return tmp_path


def tap_core(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tap_core", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=site,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{site}"},
    )


@pytest.mark.parametrize(
    "plugin", ["tap_numbers.tap:TapNumbers", "tap-numbers", "tap-numbers-main"]
)
def test_tap_runs_by_class_path_and_by_console_script(site: Path, plugin: str) -> None:
    process = tap_core(site, "run", plugin, "--config", "config.json")
    assert process.returncode == 0, process.stderr
    messages = [json.loads(line) for line in process.stdout.splitlines()]
    assert [m["record"] for m in messages if m["type"] == "RECORD"] == [
        {"id": 0},
        {"id": 1},
        {"id": 2},
    ]


def script(folder: Path, site: Path, plugin: str, config: str) -> subprocess.CompletedProcess[str]:
    """Run a plugin by the console script, for which Python does not search ``folder``."""
    return subprocess.run(
        [Path(sys.executable).with_name("tap-core"), "run", plugin, "--config", config],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{site}"},
    )


@pytest.mark.parametrize("plugin", ["tap-numbers", "tap_numbers.tap:TapNumbers"])
def test_files_of_the_working_directory_do_not_replace_libraries(
    site: Path, tmp_path_factory: pytest.TempPathFactory, plugin: str
) -> None:
    """SEC22: another user may have written files to a shared folder such as /tmp."""
    shared = tmp_path_factory.mktemp("shared")
    for name in ("requests", "jsonschema", "yaml", "fsspec", "tap_numbers"):
        (shared / f"{name}.py").write_text("raise SystemExit('planted code ran')")
    process = script(shared, site, plugin, str(site / "config.json"))
    assert process.returncode == 0, process.stderr
    assert process.stdout.count('"RECORD"') == 3


def test_class_in_the_working_directory_is_found(site: Path) -> None:
    (site / "sub").mkdir()
    (site / "sub" / "tap_here.py").write_text("from tap_numbers.tap import TapNumbers as Here\n")
    process = script(site / "sub", site, "tap_here:Here", "../config.json")
    assert process.returncode == 0, process.stderr
    assert process.stdout.count('"RECORD"') == 3


def test_removed_working_directory_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    search_working_directory()
    assert sys.path[-1] == ""


def test_command_flags_are_passed_to_the_plugin(site: Path) -> None:
    assert (
        '"streams"'
        in tap_core(site, "run", "tap-numbers", "--discover", "--config", "config.json").stdout
    )
    help_run = tap_core(site, "run", "tap-numbers", "--help")
    assert help_run.returncode == 0
    assert "--catalog" in help_run.stdout
    failed = tap_core(site, "run", "tap-numbers")
    assert failed.returncode == 1
    assert "count" in failed.stderr


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("from singer_sdk.no_such_module import X", "singer_sdk.no_such_module"),
        ("from singer_sdk.streams import NoSuchStream", "NoSuchStream"),
        ("import singer_sdk.streams.no_such_module", "singer_sdk.streams.no_such_module"),
    ],
)
def test_missing_singer_sdk_name_is_named_in_the_error(site: Path, line: str, named: str) -> None:
    (site / "broken.py").write_text(line)
    process = tap_core(site, "run", "broken:Tap")
    assert process.returncode == 1
    assert named in process.stderr
    assert "tap_core does not have" in process.stderr
    assert "Traceback" not in process.stderr


def test_plugins_of_older_releases_import_singerlib_by_its_former_name(site: Path) -> None:
    (site / "older.py").write_text(
        "import singer_sdk._singerlib as former\n"
        "from singer_sdk import singerlib\n"
        "from singer_sdk._singerlib.schema import resolve_schema_references\n"
        "from tap_numbers.tap import TapNumbers\n"
        "assert former is singerlib\n"
        "assert resolve_schema_references is singerlib.resolve_schema_references\n"
    )
    process = tap_core(site, "run", "older:TapNumbers", "--version")
    assert (process.returncode, process.stderr) == (0, "")


def test_other_import_errors_are_reported_without_a_traceback(site: Path) -> None:
    (site / "other.py").write_text("import no_such_library\nclass X: ...")
    for plugin, message in (
        ("tap-unknown", "No console script"),
        ("other:X", "no_such_library"),
        ("no_such_tap:X", "no_such_tap"),
        ("tap_numbers.tap:Nobody", "has no Nobody"),
        ("tap_numbers:__name__", "neither a plugin class nor a function"),
    ):
        process = tap_core(site, "run", plugin)
        assert process.returncode == 1
        assert message in process.stderr
        assert "Traceback" not in process.stderr


def test_usage_is_printed_for_help_and_invalid_commands(site: Path) -> None:
    assert tap_core(site).returncode == 2
    assert tap_core(site, "fly", "x").returncode == 2
    for arguments in (["--help"], ["run", "--help"]):
        process = tap_core(site, *arguments)
        assert process.returncode == 0
        assert "tap-core run PLUGIN" in process.stdout


def test_import_alias_is_refused_if_singer_sdk_is_already_imported(site: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", ALIASED],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{site}"},
    )
    assert process.returncode == 0, process.stderr
