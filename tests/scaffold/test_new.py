"""Projects that `tap-core new` creates: their files, tests, lint, types and settings."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from tap_core.cli import main
from tap_core.scaffold import Project, ProjectError, write
from tap_core.scaffold.project_options import RESERVED_NAMES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]

PROJECTS = [
    Project.from_options("tap-projects"),  # the name of a stream of the template
    Project.from_options("tap-keyed", "rest", "api-key", "page"),
    Project.from_options("tap-bearing", "rest", "bearer", "offset"),
    Project.from_options("tap-basic", "rest", "basic", "link"),
    Project.from_options("tap-open", "rest", "oauth", "cursor"),
    Project.from_options("tap-graph", "graphql", "bearer"),
    Project.from_options("tap-graph-open", "graphql", "oauth"),
    Project.from_options("tap-tables", "sql"),
    Project.from_options("tap-my-own-files", "other"),
    Project.from_options("target-files", "batch"),
    Project.from_options("target-one-by-one", "record"),
    Project.from_options("target-tables", "sql"),
]


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    inherited = {
        k: v for k, v in os.environ.items() if not k.startswith(("TAP_", "TARGET_", "PYTEST"))
    }
    environment = {
        **inherited,
        "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
        "MYPYPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # a new project installs no plugins
    }
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("projects")
    for project in PROJECTS:
        write(project, root / project.name)
    return root


@pytest.mark.every_nth_case(3)
@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_tests_of_a_new_project_pass(project: Project, projects: Path) -> None:
    process = run(projects / project.name, "pytest", "-q")

    assert process.returncode == 0, process.stdout + process.stderr
    assert "passed" in process.stdout
    assert "skipped" not in process.stdout


def test_new_tap_of_files_reads_lines_with_any_characters(projects: Path, tmp_path: Path) -> None:
    event = {"id": 1, "at": "2026-01-01T00:00:00+00:00", "event": "a\u2028b\x85c"}
    line = json.dumps(event, ensure_ascii=False)
    (tmp_path / "events.jsonl").write_text(f"{line}\n", encoding="utf-8")
    (tmp_path / "config.json").write_text(json.dumps({"folder": str(tmp_path)}))
    config = str(tmp_path / "config.json")
    process = run(projects / "tap-my-own-files", "tap_my_own_files", "--config", config)

    messages = [json.loads(line) for line in process.stdout.split("\n") if line]
    assert [message["record"] for message in messages if message["type"] == "RECORD"] == [event]


@pytest.mark.thorough
def test_wrong_token_of_a_new_tap_is_one_line_of_standard_error(tmp_path: Path) -> None:
    project = Project.from_options("tap-tracker", "rest", auth="bearer", pages="page")
    write(project, tmp_path)
    with subprocess.Popen(
        [sys.executable, "tests/service.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as service:
        assert service.stdout is not None
        address = service.stdout.readline().strip()
        config = {"api_url": address, "token": "hunter2-hunter2"}
        (tmp_path / "config.json").write_text(json.dumps(config))
        process = run(tmp_path, "tap_tracker", "--config", "config.json")
        service.terminate()
    assert process.returncode == 1
    [error] = [line for line in process.stderr.splitlines() if "| ERROR " in line]
    assert "The source refuses the credentials: check those in the config" in error
    assert "Traceback" not in process.stderr
    assert "hunter2" not in process.stdout + process.stderr


@pytest.mark.every_nth_case(3)
@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_definitions_for_meltano_are_those_of_the_plugin(project: Project, projects: Path) -> None:
    process = run(projects / project.name, project.package, "--about", "--format=meltano")
    about = yaml.safe_load(process.stdout)
    assert about.pop("pip_url") == project.name
    definition = yaml.safe_load((projects / project.name / "plugin.yaml").read_text("utf-8"))
    assert definition == about

    meltano_file = yaml.safe_load((projects / project.name / "meltano.yml").read_text("utf-8"))
    assert "version" not in meltano_file, "deprecated since Meltano 4.4"
    plugins = meltano_file["plugins"]["extractors" if project.plugin_type == "tap" else "loaders"]
    setting_names = [setting.name for setting in project.settings]
    about["settings"] = [
        setting for setting in about["settings"] if setting["name"] in setting_names
    ]
    assert about.pop("variant") == "default"
    assert plugins[0] == about
    required = [setting.name for setting in project.settings if setting.required]
    assert about.get("settings_group_validation", [[]]) == [required]
    assert plugins == [plugins[0]] or plugins[1]["executable"] == "target-spark"
    assert "target-spark" in {plugin["name"] for plugin in meltano_file["plugins"]["loaders"]}


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_env_example_names_the_variable_of_each_setting(project: Project, projects: Path) -> None:
    text = (projects / project.name / ".env.example").read_text("utf-8")

    prefix = f"{project.package.upper()}_"
    assert re.findall(r"^# (\w+)=", text, re.MULTILINE) == [
        prefix + setting.name.upper() for setting in project.settings
    ]


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_new_project_is_complete(project: Project, projects: Path) -> None:
    folder = projects / project.name
    expected = {
        *(".dockerignore", ".env.example", ".github/workflows/test.yml", ".gitignore"),
        *(".pre-commit-config.yaml", "Dockerfile", "LICENSE", "README.md", "meltano.yml"),
        *("plugin.yaml", "pyproject.toml", f"{project.package}/py.typed", "tests/test_core.py"),
    }
    assert expected <= {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    workflow = yaml.safe_load((folder / ".github/workflows/test.yml").read_text("utf-8"))
    commands = [step["run"] for step in workflow["jobs"]["test"]["steps"] if "run" in step]
    assert commands[0] == "pip install -e '.[dev]'"
    assert commands[1:] == ["ruff format --check .", "ruff check .", "mypy", "pytest"]
    [local] = yaml.safe_load((folder / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert [hook["id"] for hook in local["hooks"]] == ["ruff-check", "ruff-format", "mypy"]


def test_gitignore_covers_files_of_runs_and_no_file_of_the_project(tmp_path: Path) -> None:
    folder = tmp_path / "tap-plain"
    files = [
        str(path.relative_to(folder)) for path in write(Project.from_options("tap-plain"), folder)
    ]
    generated = [
        *("address.txt", "messages.jsonl", "later.jsonl", "config.json", "state.json", ".env"),
        *("catalog.json", "target.json", "warehouse/x", ".meltano/x", ".venv/x", "wheels/x"),
    ]
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    ignored = subprocess.run(
        ["git", "check-ignore", *files, *generated],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ignored.stdout.splitlines() == generated


def read_instructions(project: Project, folder: Path) -> list[tuple[str, str]]:
    """Return the instructions and arguments of a project's Dockerfile without comments."""
    text = (folder / project.name / "Dockerfile").read_text("utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in joined.splitlines()]


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_new_project_has_a_dockerfile_with_a_non_root_user(
    project: Project, projects: Path
) -> None:
    """The instructions are read; no image is built."""
    lines = read_instructions(project, projects)
    assert {instruction for instruction, _ in lines} <= {
        *("ARG", "FROM", "COPY", "RUN", "ENV", "USER", "WORKDIR", "ENTRYPOINT")
    }
    assert [value for instruction, value in lines if instruction == "FROM"] == [
        "${BASE_IMAGE} AS build",
        "${BASE_IMAGE}",
    ]
    [user] = [value for instruction, value in lines if instruction == "USER"]
    created_users = re.findall(r"useradd --uid 1000 --create-home (\w+)", str(lines))
    assert created_users == [user] != ["root"]
    positions = [
        index
        for index, (instruction, _) in enumerate(lines)
        if instruction in {"USER", "ENTRYPOINT"}
    ]
    assert [lines[index][0] for index in positions] == ["USER", "ENTRYPOINT"]
    [first_copy, second_copy] = [value for instruction, value in lines if instruction == "COPY"]
    assert (first_copy, second_copy) == (". /build", "--from=build /app /app")
    assert json.loads(lines[positions[1]][1]) == [project.name]
    variables = [
        value for instruction, value in lines if instruction == "ENV" and "AIRBYTE" in value
    ]
    expected = [f'AIRBYTE_ENTRYPOINT="{project.name}"'] if project.plugin_type == "tap" else []
    assert variables == expected


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_settings_and_secrets_are_in_dockerignore(project: Project, projects: Path) -> None:
    ignored = (projects / project.name / ".dockerignore").read_text("utf-8").splitlines()
    assert {".git", ".env", "*.json"} <= set(ignored)


def test_dockerfile_entry_point_is_an_installed_program(projects: Path, tmp_path: Path) -> None:
    """The project is installed as in the Dockerfile, but without its dependencies."""
    project = Project.from_options("tap-keyed", "rest", "api-key", "page")
    offline = ("--no-deps", "--no-index", "--no-build-isolation", "--quiet")
    app = tmp_path / "app"
    pip_process = run(
        projects, "pip", "install", *offline, "--target", str(app), project.name + "/"
    )
    assert pip_process.returncode == 0, pip_process.stderr
    [entry_point] = [
        json.loads(value)
        for instruction, value in read_instructions(project, projects)
        if instruction == "ENTRYPOINT"
    ]
    process = subprocess.run(
        [str(app / "bin" / entry_point[0]), "spec"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{app}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert [json.loads(line)["type"] for line in process.stdout.splitlines()] == ["SPEC"]


def check_with_ruff(folder: Path) -> None:
    """Check all projects in a folder with ruff, which reads the settings of each project."""
    for arguments in (("format", "--check", "--diff", "--no-cache"), ("check", "--no-cache")):
        process = run(folder, "ruff", *arguments, ".")
        assert process.returncode == 0, process.stdout + process.stderr


def test_new_projects_pass_their_own_ruff(projects: Path) -> None:
    check_with_ruff(projects)


def test_new_projects_with_long_names_pass_their_own_ruff(tmp_path: Path) -> None:
    """The names of the package and of the classes are in imports and calls."""
    long_name = "salesforce-marketing-cloud-for-customers-in-europe"
    for project in PROJECTS:
        for length in (12, 20, 26, 32, 40, 50):
            name = f"{project.plugin_type}-{long_name[:length].rstrip('-')}"
            long_named_project = Project.from_options(
                name, project.kind, project.auth, project.pagination
            )
            write(long_named_project, tmp_path / f"{project.name}-{length}")
    check_with_ruff(tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_new_project_passes_its_own_mypy(project: Project, projects: Path) -> None:
    """The SDK is read as an installed package, whose errors mypy does not report."""
    cache = f"--cache-dir={projects / '.mypy_cache'}"

    process = run(projects / project.name, "mypy", "--follow-imports=silent", cache)

    assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.thorough
@pytest.mark.skipif(find_spec("basedpyright") is None, reason="basedpyright is not installed")
def test_new_projects_pass_pyright_in_strict_mode(projects: Path) -> None:
    folders = [str(projects / project.name) for project in PROJECTS]
    environments = [{"root": folder, "extraPaths": [str(ROOT)]} for folder in folders]
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.10", "include": folders}
    (projects / "pyright.json").write_text(
        json.dumps({**settings, "executionEnvironments": environments})
    )

    process = run(projects, "basedpyright", "-p", "pyright.json", "--pythonpath", sys.executable)

    assert process.returncode == 0, process.stdout + process.stderr


def test_new_command_prints_the_next_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my taps"

    assert main(["new", "tap-example", "--auth", "bearer", "--folder", str(folder)]) == 0

    printed = capsys.readouterr().out.splitlines()
    assert f"  cd '{folder}'" in printed
    assert "  pip install -e '.[dev]'" in printed  # as the project's README and docs/first-tap.md
    assert "  pytest" in printed
    assert "BearerTokenAuthenticator" in (folder / "tap_example" / "client.py").read_text()


def test_new_command_does_not_overwrite_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own_file = tmp_path / "mine.txt"
    own_file.write_text("mine")

    assert main(["new", "tap-example", "--folder", str(tmp_path)]) == 1

    assert "already exists" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [own_file]


def test_folder_that_cannot_be_written_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["new", "tap-example", "--folder", str(tmp_path / "file" / "tap")]) == 1
    [message] = capsys.readouterr().err.splitlines()
    assert message.startswith(f"The folder {tmp_path}/file/tap cannot be written: Not a directory.")
    assert "--folder" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("example",), "is not a valid plugin name"),
        (("tap-Example",), "is not a valid plugin name"),
        (("tap-x/../y",), "is not a valid plugin name"),
        (("tap-x", "soap"), "use rest, graphql, sql or other"),
        (("target-x", "rest"), "use batch, record or sql"),
        (("tap-x", "rest", "kerberos"), "--auth kerberos"),
        (
            ("tap-x", "sql", "bearer"),
            "bearer is not possible for a tap of the kind sql: use none.",
        ),
        (
            ("tap-x", "graphql", None, "page"),
            "for a tap of the kind graphql: use cursor",
        ),
    ],
)
def test_invalid_project_options_are_rejected_with_the_valid_ones(
    arguments: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ProjectError, match=message):
        Project.from_options(*arguments)


def test_name_that_would_hide_a_name_of_the_sdk_is_rejected() -> None:
    """No other package that the SDK imports, and none of Python, has a name of this form."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    libraries = {re.split(r"[^\w-]", line)[0] for line in project["dependencies"]}
    packages = {
        *sys.stdlib_module_names,
        *(name for name, owners in packages_distributions().items() if libraries & {*owners}),
        *(path.parent.name for path in ROOT.glob("*/__init__.py")),
    }
    commands = {*project["scripts"], project["name"]}
    hidden = {name.replace("_", "-") for name in packages | commands}
    classes = {"target-batch", "target-record"}  # BatchSink(BatchSink)
    assert {name for name in hidden | classes if name.startswith(("tap-", "target-"))} == (
        RESERVED_NAMES
    )
    for name in {"requests", "json", "singer-sdk"} | hidden | classes:
        with pytest.raises(ProjectError):
            Project.from_options(name)
    with pytest.raises(ProjectError, match="choose another name, such as 'tap-my-core'"):
        Project.from_options("tap-core")


@pytest.mark.parametrize("arguments", [["example"], ["tap-x", "--kind", "soap"], ["target-spark"]])
def test_invalid_option_of_the_command_is_a_usage_error(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is that of an invalid command line, and nothing is written."""
    assert main(["new", *arguments]) == 2
    assert "Usage: " in capsys.readouterr().err
