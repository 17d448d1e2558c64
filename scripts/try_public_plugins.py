"""Run public plugins on singer_sdk and on tap_core, and write the results to docs/tried.md.

Each plugin of `public_plugins.py` is installed into a separate environment, followed by the wheel
of this project. `tap-x` runs it on the singer_sdk that it requires, `tap-core run tap-x` on
tap_core. Both get the same config, files and server, and their outputs are compared. Manifests are
run on airbyte-cdk and on tap_core against a server that simulates any API. No plugin gets an
account: all servers are on loopback.

    python scripts/try_public_plugins.py --work FOLDER [--only NAME ...]

`FOLDER/trials` stores the outputs, so that a later call can replace single rows. `--only` without a
package runs nothing and only writes the page.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # for the table and the servers of the tests

from scripts.public_plugins import (  # noqa: E402
    DATABASE,
    MANIFESTS,
    MESSAGES,
    PLUGINS,
    SERVER,
    Manifest,
    Plugin,
)
from tests.http.server import ReceivedRequest, Reply, Server, serving  # noqa: E402
from tests.manifest.published import run_airbyte_cdk, run_tap_core  # noqa: E402
from tests.peers import PEERS, make_peer  # noqa: E402
from tests.postgres import Database, shared_server  # noqa: E402

PAGE = ROOT / "docs" / "tried.md"
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
SECONDS = 60  # for one run of a plugin
SHOWN = 60  # characters of a value in a verdict


@dataclass(frozen=True)
class Ended:
    """Finished run of a program. The ``output`` of a target is the data that it wrote, as JSON."""

    code: int
    output: str
    errors: str

    @property
    def reason(self) -> str:
        """Last line of the errors, without time and logger, as text for a table."""
        lines = [line for line in self.errors.splitlines() if line.strip() and "METRIC" not in line]
        last = lines[-1].split(" | ")[-1].strip() if lines else f"exit code {self.code}"
        if last.startswith('{"message": '):  # an error of Airbyte's protocol
            last = json.loads(last)["message"]
        return last[:200].replace("|", "\\|")


@dataclass(frozen=True)
class Step:
    """Runs of one step on tap_core and on the other SDK."""

    name: str
    ours: Ended
    theirs: Ended


@dataclass(frozen=True)
class Trial:
    """Runs of a package.

    Attributes:
        package: Name on the package index.
        version: Version of the package.
        sdk: Version of singer_sdk with which the package was compared.
        steps: Steps that were run.
        problem: Reason for which nothing was run; empty if there is none.
    """

    package: str
    version: str
    sdk: str = ""
    steps: tuple[Step, ...] = ()
    problem: str = ""


# ------------------------------------------------------------------------- environments
def make_environment(
    work: Path, name: str, python: str, steps: Sequence[Sequence[str]], contents: str = ""
) -> Path:
    """Return the folder of programs of an environment, which is created if necessary.

    Args:
        work: Folder of the environments.
        name: Name of the environment.
        python: Python interpreter of the environment.
        steps: Arguments of the calls of pip, one call per step.
        contents: Hash of a wheel among them; if it has changed, the environment is replaced.
    """
    folder = work / "environments" / name
    stamp, content = folder / ".ready", json.dumps([*map(list, steps), contents])
    if not (stamp.exists() and stamp.read_text() == content):
        subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
        for step in steps:
            subprocess.run([str(folder / "bin" / "python"), *PIP, *step], check=True)
        stamp.write_text(content)
    return folder / "bin"


def install_plugin(plugin: Plugin, work: Path, wheel: Path) -> Path:
    """Return the folder of programs of a plugin's environment.

    The plugin is installed before this project, as by a user who adds the project to an existing
    environment. Dependencies of both get a version that this project accepts.
    """
    python = shutil.which(f"python{plugin.python}") if plugin.python else sys.executable
    if not python:
        message = f"it needs Python {plugin.python}, which is not installed"
        raise FileNotFoundError(message)
    steps = [(f"{plugin.package}=={plugin.version}", *plugin.requires), (str(wheel),)]
    return make_environment(work, plugin.package, python, steps, read_contents(wheel))


def read_contents(wheel: Path) -> str:
    """Return a hash of the hashes of a wheel's files."""
    with ZipFile(wheel) as archive:
        [record] = [name for name in archive.namelist() if name.endswith(".dist-info/RECORD")]
        return hashlib.sha256(archive.read(record)).hexdigest()


def build_wheel(work: Path) -> Path:
    """Build the wheel of this project and return its path."""
    folder = work / "wheels"
    shutil.rmtree(folder, ignore_errors=True)
    command = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run([sys.executable, *command], check=True)
    [wheel] = folder.glob("*.whl")
    return wheel


def read_version(programs: Path, package: str) -> str:
    """Return the version of a package in an environment."""
    folders = [str(folder) for folder in programs.parent.glob("lib/python*/site-packages")]
    [distribution] = metadata.distributions(name=package, path=folders)
    return distribution.version


# ------------------------------------------------------------------------- runs
_NOW = re.compile(
    rf"{dt.datetime.now(dt.timezone.utc):%Y-%m-%d}[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00|\+0000|Z)?"
    rf"|\b{str(int(time.time()))[:4]}\d{{9}}\b"  # the same in milliseconds
)


def mask(text: str) -> str:
    """Return a text in which times of today, which differ between runs, are replaced."""
    return _NOW.sub(lambda match: "1" * 13 if match[0].isdigit() else "now", text)


@dataclass(frozen=True)
class Site:
    """Environment of a plugin's runs: its programs, folder, server and database."""

    plugin: Plugin
    programs: Path
    folder: Path
    server: Server
    database: Database | None = None

    def run(self, ours: bool, *options: str, stdin: str = "") -> Ended:
        """Run the plugin, on tap_core if ``ours``, with its config."""
        program = [str(self.programs / self.plugin.program)]
        if ours:
            program = [str(self.programs / "tap-core"), "run", self.plugin.program]
        try:
            process = subprocess.run(
                [*program, *options],
                input=stdin,
                capture_output=True,
                text=True,
                check=False,
                timeout=SECONDS,
                cwd=self.folder,
                env={"PATH": f"{self.programs}:/usr/bin:/bin", "HOME": str(self.folder)},
            )
        except subprocess.TimeoutExpired:
            return Ended(1, "", f"it did not end within {SECONDS} seconds")
        return Ended(process.returncode, self._mask(process.stdout), self._mask(process.stderr))

    def _mask(self, text: str) -> str:
        names_by_path = {
            str(self.folder): "FOLDER",
            str(self.programs.parent): "ENVIRONMENT",
            self.server.url: "SERVER",
        }
        for path, name in names_by_path.items():
            text = text.replace(path, name)
        return mask(text)

    def write_config(self) -> str:
        """Write the config of the plugin and return its path."""
        settings = json.dumps(self.plugin.config)
        settings = settings.replace("{url}", self.server.url).replace("{folder}", str(self.folder))
        config = json.loads(settings.replace("{host}", self.server.url.removeprefix("http://")))
        if self.database:
            config |= self.database.settings
        path = self.folder / "config.json"
        path.write_text(json.dumps(config))
        return str(path)


@contextmanager
def preparing(plugin: Plugin, programs: Path, folder: Path) -> Iterator[Site]:
    """Yield the environment of a run: a folder with the plugin's files, a server, a database."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in plugin.files.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with ExitStack() as stack:
        server = stack.enter_context(serving())
        server.answers_by(answer_with(plugin.replies))
        database = None
        if plugin.source == DATABASE:
            database = stack.enter_context(shared_server().database("tried"))
        yield Site(plugin, programs, folder, server, database)


PAGES = ("page", "offset", "limit_start")
"""Query parameters with the number of the page or of its first record."""


def answer_with(replies: Mapping[str, Any]) -> Callable[[ReceivedRequest], Reply]:
    """Return the function that answers requests by their path, with empty pages after the first.

    The response for an unknown path is ``{}``.
    """

    def answer(request: ReceivedRequest) -> Reply:
        body = replies.get(request.path.partition("?")[0], {})
        pages = {value for name in PAGES for value in request.query.get(name, ())}
        if pages - {"0", "1"}:
            body = _empty(body)
        kind = "application/xml" if isinstance(body, str) else "application/json"
        return Reply(body, headers={"Content-Type": kind})

    return answer


def _empty(body: Any) -> Any:
    if isinstance(body, dict):
        return {name: [] if isinstance(value, list) else value for name, value in body.items()}
    return type(body)()


# ------------------------------------------------------------------------- plugins
def try_tap(site: Site) -> Iterator[Step]:
    """Yield the runs of a tap."""
    config = ["--config", site.write_config()]
    discovery = Step("discover", *(site.run(ours, *config, "--discover") for ours in (True, False)))
    yield discovery
    if site.plugin.source:
        if site.plugin.is_selected:
            config += [
                "--catalog",
                select_all(discovery.theirs.output, site.folder / "catalog.json"),
            ]
        yield Step("sync", *(site.run(ours, *config) for ours in (True, False)))


def select_all(catalog: str, path: Path) -> str:
    """Write a catalog with all streams selected and return its path."""
    document = json.loads(catalog)
    for entry in document["streams"]:
        for item in entry["metadata"]:
            if not item["breadcrumb"]:
                item["metadata"]["selected"] = True
    path.write_text(json.dumps(document))
    return str(path)


def prepare_tables(database: Database | None) -> None:
    """Create the tables that a tap of a database reads."""
    if database:
        database.run(
            "CREATE TABLE cities (id int PRIMARY KEY, name text, price numeric(10, 2), "
            "founded date, seen_at timestamptz, is_port boolean, tags text[], more jsonb)",
            "INSERT INTO cities VALUES (1, 'Lübeck', 1.25, '1143-01-01', "
            """'2026-01-02 03:04:05.678901+00', true, '{a,b}', '{"a": 1}')""",
            "INSERT INTO cities (id) VALUES (2)",
        )


def read_written(site: Site) -> Any:
    """Return the data that a target wrote: database rows, requests to the server, or files."""
    if site.database:
        return [
            [mask(str(value)) for value in row]
            for row in site.database.run("SELECT * FROM cities ORDER BY id")
        ]
    if site.plugin.source == SERVER:
        return [mask(request.body.decode()) for request in site.server.asked]
    files = sorted(path for path in site.folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(site.folder)): mask(path.read_text())
        for path in files
        if path.name != "config.json" and ".cache" not in path.parts
    }


def try_target(plugin: Plugin, programs: Path, folder: Path) -> Step:
    """Return the runs of a target, each in an empty folder."""
    stdin = "".join(f"{json.dumps(message)}\n" for message in MESSAGES)
    ended: list[Ended] = []
    for ours in (True, False):
        with preparing(plugin, programs, folder) as site:
            result = site.run(ours, "--config", site.write_config(), stdin=stdin)
            written = {} if result.code else read_written(site)
            output = {"written": written, "state": result.output.splitlines()[-1:]}
            ended.append(Ended(result.code, json.dumps(output), result.errors))
    return Step("load", *ended)


def try_mapper(site: Site) -> Step:
    """Return the runs of a mapper."""
    stdin = "".join(f"{json.dumps(message)}\n" for message in MESSAGES)
    config = site.write_config()
    runs = (site.run(ours, "--config", config, stdin=stdin) for ours in (True, False))
    return Step("mapping", *runs)


def run_plugin(plugin: Plugin, programs: Path, folder: Path) -> Trial:
    """Run an installed plugin on singer_sdk and on tap_core, in ``folder``, which is emptied."""
    steps: list[Step] = []
    with preparing(plugin, programs, folder) as site:
        about = ("--about", "--format", "json")
        steps.append(Step("about", *(site.run(ours, *about) for ours in (True, False))))
        if plugin.kind == "tap":
            prepare_tables(site.database)
            steps += try_tap(site)
        elif plugin.kind == "mapper":
            steps.append(try_mapper(site))
    if plugin.kind == "target" and plugin.source:
        steps.append(try_target(plugin, programs, folder))
    sdk = read_version(programs, "singer-sdk")
    return Trial(plugin.package, plugin.version, sdk, tuple(steps))


def try_plugins(plugins: Sequence[Plugin], work: Path) -> Iterator[Trial]:
    """Install plugins and yield their trials."""
    if plugins:
        wheel = build_wheel(work)
        yield from (try_plugin(plugin, work, wheel) for plugin in plugins)


def try_plugin(plugin: Plugin, work: Path, wheel: Path) -> Trial:
    """Install a plugin and return its trial."""
    try:
        programs = install_plugin(plugin, work, wheel)
    except FileNotFoundError as error:
        return Trial(plugin.package, plugin.version, problem=str(error))
    except subprocess.CalledProcessError:
        return Trial(plugin.package, plugin.version, problem="pip cannot install it")
    return run_plugin(plugin, programs, work / "run")


# ------------------------------------------------------------------------- manifests
def try_manifests(manifests: Sequence[Manifest], work: Path) -> Iterator[Trial]:
    """Install all manifests in one environment and yield the trials of the given ones."""
    if not manifests:
        return
    pins = [f"{published.package}=={published.version}" for published in MANIFESTS]
    steps = [("--no-deps", "--ignore-requires-python", *pins)]
    programs = make_environment(work, "manifests", sys.executable, steps)
    [site_packages] = programs.parent.glob("lib/python*/site-packages")
    cdk = make_peer("airbyte_cdk")
    for manifest in manifests:
        yield try_manifest(manifest, site_packages, cdk)


def try_manifest(manifest: Manifest, site_packages: Path, cdk: Path) -> Trial:
    """Run a manifest on airbyte-cdk and on tap_core."""
    [path] = site_packages.glob(f"{manifest.module}/manifest.yaml")
    runs = []
    for results in (run_tap_core(path), run_airbyte_cdk(path, cdk)):
        code = max(result.code for result in results)
        errors = "\n".join(error for result in results for error in result.errors)
        outputs = [
            {"requests": result.requests, "records": result.records, "states": result.states}
            for result in results
        ]
        runs.append(Ended(code, json.dumps(outputs), errors))
    return Trial(manifest.package, manifest.version, steps=(Step("two syncs", *runs),))


# ------------------------------------------------------------------------- comparisons
BUILT_IN = frozenset({
    *("stream_maps", "stream_map_config", "faker_config", "flattening_enabled", "batch_config"),
    *("flattening_max_depth", "flattening_max_key_length", "flattening_separator", "load_method"),
    *("add_record_metadata", "validate_records", "batch_size_rows", "use_singer_decimal"),
    *("process_activate_version_messages", "emit_activate_version_messages"),
})  # fmt: skip
"""Settings that an SDK adds to the plugin's own."""


def read_about(output: str) -> Any:
    """Return the name and the plugin's own settings of ``--about --format json``."""
    about = json.loads(output[output.index("{") :])
    settings = about["settings"]
    properties = settings.get("properties", {})
    return {
        "name": about["name"],
        "required": sorted(settings.get("required", [])),
        "settings": {
            name: definition for name, definition in properties.items() if name not in BUILT_IN
        },
    }


def read_catalog(output: str) -> Any:
    """Return the entries of a catalog by stream name."""
    entries = json.loads(output)["streams"]
    for entry in entries:
        about = {"/".join(item["breadcrumb"]): item["metadata"] for item in entry["metadata"]}
        entry["metadata"] = about
    return {entry["tap_stream_id"]: entry for entry in entries}


def read_messages(output: str) -> Any:
    """Return the schemas, the records and the last state of a tap's output."""
    results: dict[str, Any] = {"schemas": {}, "records": {}, "state": None}
    for message in map(json.loads, output.splitlines()):
        if message["type"] == "SCHEMA":
            results["schemas"][message["stream"]] = message
        elif message["type"] == "RECORD":
            results["records"].setdefault(message["stream"], []).append(message["record"])
        elif message["type"] == "STATE":
            results["state"] = message["value"]
    return results


LATER = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "additionalProperties": True,
    "selected-by-default": True,
}
"""Keys without effect that releases before singer_sdk 0.54 do not write, with their values."""


def find_differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Yield the places where two JSON values differ, with both values."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted({*ours, *theirs}):
            yield from _find_in_member(ours, theirs, key, f"{path}.{key}".lstrip("."))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, pair in enumerate(zip(ours, theirs, strict=True)):
            yield from find_differences(*pair, f"{path}[{number}]")
    elif ours != theirs or type(ours) is not type(theirs):
        yield f"{path}: `{_cut(ours)}` instead of `{_cut(theirs)}`"


def _find_in_member(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], key: str, path: str
) -> Iterator[str]:
    if key in ours and key in theirs:
        yield from find_differences(ours[key], theirs[key], path)
    elif key in theirs:
        yield f"{path}: missing: `{_cut(theirs[key])}`"
    elif not _is_later(key, ours[key]):
        yield f"{path}: more: `{_cut(ours[key])}`"


def _is_later(key: str, value: Any) -> bool:
    return key == "replication-key" or (key in LATER and LATER[key] == value)


def _cut(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False).replace("|", "\\|").replace("`", "'")
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


# ------------------------------------------------------------------------- verdicts
READERS: Mapping[str, Callable[[str], Any]] = {
    "about": read_about,
    "discover": read_catalog,
    "sync": read_messages,
    "mapping": read_messages,
    "load": json.loads,
    "two syncs": json.loads,
}


def compare(step: Step) -> list[str]:
    """Return the differences between the runs of a step, as phrases."""
    if step.theirs.code and step.ours.code:
        return []
    if step.ours.code:
        return [f"fails: {step.ours.reason}"]
    if step.theirs.code:
        return [f"runs, but fails on the other SDK: {step.theirs.reason}"]
    ours, theirs = (READERS[step.name](result.output) for result in (step.ours, step.theirs))
    return list(find_differences(ours, theirs))


def count_records(step: Step) -> int:
    """Return the number of records that the other SDK wrote or read in a step."""
    if step.name == "load":
        return sum("record" in message for message in MESSAGES)
    if step.name == "two syncs":
        runs = json.loads(step.theirs.output)
        return sum(len(rows) for run in runs for rows in run["records"].values())
    return sum(map(len, read_messages(step.theirs.output)["records"].values()))


def describe_steps(trial: Trial) -> str:
    """Return the names of the steps as text, without those that failed on both SDKs."""
    descriptions = []
    for step in trial.steps:
        if step.theirs.code and step.ours.code:
            continue
        if step.name in {"about", "discover"} or step.theirs.code:
            descriptions.append(step.name)
        else:
            count = count_records(step)
            descriptions.append(f"{step.name} ({count} record{'' if count == 1 else 's'})")
    return ", ".join(descriptions)


def judge(trial: Trial, item: Plugin | Manifest) -> str:
    """Return the verdict of a package."""
    if trial.problem:
        return f"not tried: {trial.problem}"
    differences = [(step.name, phrase) for step in trial.steps for phrase in compare(step)]
    failures = [
        f"{phrase} ({name})" for name, phrase in differences if phrase.startswith("fails: ")
    ]
    failed_on_both = [step for step in trial.steps if step.ours.code and step.theirs.code]
    notes = [f"{step.name} fails on both: {step.theirs.reason}" for step in failed_on_both]
    if isinstance(item, Plugin) and not item.source:
        notes.append(f"{'sync' if item.kind == 'tap' else 'load'} not tried: needs its service")
    if failures:
        verdict = failures[0]
    elif differences:
        (name, phrase), other_count = differences[0], len(differences) - 1
        verdict = f"same but {name}: {phrase}" + (f" and {other_count} more" if other_count else "")
    else:
        verdict = "same"
    compared = [verdict] if len(failed_on_both) < len(trial.steps) else []
    return "; ".join([*compared, *notes])


# ------------------------------------------------------------------------- page
HEAD = """# Public plugins that were tried

This page lists public taps, targets, mappers and manifests that run on this project unchanged, and
the differences that were found. Each was installed at the version below and run twice with the same
config, files and server: on the SDK that it was written for, and on this project. What it printed
or wrote was compared. In a clone of the repository,
`python scripts/try_public_plugins.py --work FOLDER` runs them again and writes this page.

{run}

| Verdict | Meaning |
|---|---|
| same | no step has a difference |
| same but … | the first difference that was found, with both values |
| fails: … | the step runs on the other SDK and fails here, with this error |
| … fails on both | the step fails on the other SDK, too, with this error; nothing was compared |
| … not tried | the step needs a service or an account, or the package cannot be installed |

| Step | Compared |
|---|---|
| about | `--about`: the name and the settings |
| discover | `--discover`: the catalog |
| sync | schemas, records and the last state of a tap |
| load | what a target wrote, and its last state |
| mapping | schemas, records and the last state that a mapper writes |
| two syncs | requests, records and states of a manifest; the second sync resumes the first |

No plugin has an account. A sync reads local files, a PostgreSQL or an HTTP server on loopback.
The time of the run is not compared, nor the settings that singer_sdk itself adds to a plugin, nor
what releases before 0.54 leave out and later ones write, without effect on a sync: `$schema`,
`additionalProperties: true`, and in a catalog `replication-key` and `selected-by-default: true`.

## Taps, targets and mappers of singer_sdk

Compared with the release of singer_sdk that the package installs. The package was installed first
and this project with a second command: old releases of singer_sdk ask for old releases of libraries
such as urllib3, so that one command for both finds no solution. This project has the behavior of
singer_sdk 0.54; a difference from an older release can be a change that singer_sdk made since.

{plugins}

## Manifests of Airbyte

Compared with airbyte-cdk {cdk}. The server answers for any API, and may not end a list.

{manifests}
"""


def read_trials(work: Path) -> dict[str, Trial]:
    """Return the stored trials by package."""
    trials = {}
    for path in sorted((work / "trials").glob("*.json")):
        document = json.loads(path.read_text())
        steps = tuple(
            Step(
                step_document["name"],
                Ended(**step_document["ours"]),
                Ended(**step_document["theirs"]),
            )
            for step_document in document["steps"]
        )
        trials[document["package"]] = Trial(**{**document, "steps": steps})
    return trials


def write_page(trials: Mapping[str, Trial]) -> None:
    """Write docs/tried.md with a row for each listed package."""
    plugins = [
        "| Package | Version | Kind | singer_sdk | Run | Verdict |",
        "|---|---|---|---|---|---|",
    ]
    manifests = ["| Package | Version | Run | Verdict |", "|---|---|---|---|"]
    for item in (*PLUGINS, *MANIFESTS):
        trial = trials.get(item.package)
        if trial is None or trial.version != item.version:
            trial = Trial(item.package, item.version, problem="not run at this version yet")
        description, verdict = describe_steps(trial), judge(trial, item)
        if isinstance(item, Plugin):
            cells = (item.package, item.version, item.kind, trial.sdk, description, verdict)
            plugins.append(f"| {' | '.join(cells)} |")
        else:
            manifests.append(f"| {item.package} | {item.version} | {description} | {verdict} |")
    PAGE.write_text(
        HEAD.format(
            run=describe_run(),
            plugins="\n".join(plugins),
            manifests="\n".join(manifests),
            cdk=PEERS["airbyte_cdk"][0].partition("==")[2],
        )
    )


def describe_run() -> str:
    """Return the date of the run, the versions and the kind of machine."""
    project = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    version = project[1] if project else ""
    newer = sorted({plugin.python for plugin in PLUGINS if plugin.python})
    other_versions = f" ({' or '.join(newer)} where a package needs it)" if newer else ""
    machine = f"{platform.system()} {platform.machine()} with {os.cpu_count()} processors"
    return (
        f"Last run: {dt.datetime.now(dt.timezone.utc):%Y-%m-%d}, with tap-core-sdk {version},"
        f" Python {platform.python_version()}{other_versions}, on {machine}."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the selected packages and write the page."""
    listed = [item.package for item in (*PLUGINS, *MANIFESTS)]
    parser = argparse.ArgumentParser(description="Run public plugins and write docs/tried.md.")
    parser.add_argument("--work", type=Path, required=True, help="folder for environments")
    parser.add_argument(
        "--only", nargs="*", metavar="PACKAGE", default=listed, help="packages to run again"
    )
    options = parser.parse_args(arguments)
    if unknown := sorted({*options.only} - {*listed}):
        parser.error(f"not in scripts/public_plugins.py: {', '.join(unknown)}")
    work: Path = options.work.resolve()
    (work / "trials").mkdir(parents=True, exist_ok=True)
    plugins = [item for item in PLUGINS if item.package in options.only]
    manifests = [item for item in MANIFESTS if item.package in options.only]
    for trial in chain(try_plugins(plugins, work), try_manifests(manifests, work)):
        print(f"{trial.package}: {describe_steps(trial) or trial.problem}", flush=True)
        trial_file = work / "trials" / f"{trial.package}.json"
        trial_file.write_text(json.dumps(asdict(trial), indent=1))
    write_page(read_trials(work))
    return 0


if __name__ == "__main__":
    sys.exit(main())
