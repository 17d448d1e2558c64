"""The Dockerfile and the compose file in `images`: pins, users, copied files and settings."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from target_spark.config.settings import SCHEMA
from target_spark.target import TargetSpark
from tests.images.dockerfile import ROOT, Instruction, read_stages, select_stages

FOLDER = ROOT / "images"
IMAGES = ("tap", "tap-manifest", "target-spark")
PINNED = re.compile(r"[\w./-]+:(?!latest)[\w.-]+@sha256:[0-9a-f]{64}")


STAGES = read_stages((FOLDER / "Dockerfile").read_text("utf-8"))


def read_image(image: str) -> list[Instruction]:
    """Return the instructions of an image: those of the stages on which its stage is based."""
    named = {stage.name: stage for stage in STAGES}
    instructions: list[Instruction] = []
    while image in named:
        instructions[:0] = named[image].instructions
        image = named[image].base
    return instructions


def read_build(image: str) -> list[Instruction]:
    """Return the instructions of all stages that an image is built from."""
    stages = select_stages(STAGES, image)
    return [instruction for stage in stages for instruction in stage.instructions]


def read_compose() -> dict[str, Any]:
    compose: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))
    return compose


def test_all_images_have_one_base_that_is_pinned_by_digest() -> None:
    """SEC20: a base image is always the same one."""
    [base] = {stage.base for stage in STAGES} - {stage.name for stage in STAGES}
    assert PINNED.fullmatch(base)


def test_every_stage_belongs_to_an_image() -> None:
    used = {stage.name for image in IMAGES for stage in select_stages(STAGES, image)}
    assert used == {stage.name for stage in STAGES}


@pytest.mark.parametrize("image", IMAGES)
def test_containers_run_as_a_fixed_user_without_privileges(image: str) -> None:
    names = [instruction.name for instruction in read_image(image)]
    [user] = [i.value for i in read_image(image) if i.name == "USER"]
    assert user == "1000:1000"
    assert "RUN" not in names[names.index("USER") :]


@pytest.mark.parametrize("image", IMAGES)
def test_entry_point_is_the_program(image: str) -> None:
    [entry_point] = [i.value for i in read_image(image) if i.name == "ENTRYPOINT"]
    assert json.loads(entry_point) == [image]


@pytest.mark.parametrize("image", IMAGES)
def test_labels_have_version_and_license_of_the_project(image: str) -> None:
    labels = dict(i.split()[0].split("=", 1) for i in read_image(image) if i.name == "LABEL")
    project = metadata.metadata("tap-core-sdk")
    prefix = "org.opencontainers.image"
    assert labels[f"{prefix}.version"] == project["Version"]
    assert labels[f"{prefix}.licenses"] == project["License-Expression"]
    assert labels[f"{prefix}.title"] == image


@pytest.mark.parametrize("image", IMAGES)
def test_copied_files_exist_and_are_not_ignored(image: str) -> None:
    ignored = [
        line
        for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    copied = [
        name
        for instruction in read_build(image)
        if instruction.name == "COPY" and not instruction.value.startswith("--from=")
        for name in instruction.split()[:-1]
    ]
    assert "tap_core" in copied
    for name in copied:
        assert (ROOT / name).exists(), name
        assert not any(fnmatch.fnmatch(name, pattern) for pattern in ignored), name


def find_pip_commands(image: str) -> list[str]:
    """Return the commands of an image's build that install or build packages."""
    return [
        command.strip()
        for instruction in read_build(image)
        if instruction.name == "RUN"
        for command in re.split(r"&&|;", instruction.value)
        if re.search(r"pip\b.* (install|wheel) ", command)
    ]


@pytest.mark.parametrize("image", IMAGES)
def test_packages_are_installed_with_hashes(image: str) -> None:
    """SEC20: exceptions are the project itself, and a tap without a lock file."""
    commands = find_pip_commands(image)
    unlocked = [command for command in commands if "--require-hashes" not in command]
    project, installed, *other_commands = unlocked
    assert project.endswith("--no-deps --no-build-isolation --wheel-dir wheels .")
    assert installed.endswith("--no-deps --no-index wheels/*.whl")
    assert len(other_commands) == (image == "tap")
    assert all('"${TAP}"' in command for command in other_commands)
    assert len(commands) - len(unlocked) >= 2
    for command in set(commands) - set(unlocked):
        assert "--no-deps" in command
        assert re.search(r" -r \S+\.lock$", command)


def find_step(image: str, text: str) -> str:
    """Return the command of the one RUN instruction of an image that contains a text."""
    [step] = [i.value for i in read_build(image) if i.name == "RUN" and text in i.value]
    return step


def test_build_without_a_tap_ends_with_an_error_that_names_the_argument() -> None:
    command = ["sh", "-c", find_step("tap", "Name the tap")]
    process = subprocess.run(
        command, env={"PATH": os.environ["PATH"]}, capture_output=True, check=False
    )
    assert process.returncode == 1
    assert process.stderr == b"Name the tap: --build-arg TAP=meltanolabs-tap-github==1.30.1\n"


def write_wheel(folder: Path, name: str, version: str, *needed: str) -> None:
    """Write the wheel of a package that has no files, only requirements."""
    info = f"{name}-{version}.dist-info"
    requirements = "".join(f"Requires-Dist: {requirement}\n" for requirement in needed)
    files = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requirements}",
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "".join(f"{info}/{file},,\n" for file in ("METADATA", "WHEEL", "RECORD")),
    }
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for file, text in files.items():
            archive.writestr(f"{info}/{file}", text)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("needed", "installed"),
    [
        (["tap-core-sdk", "library"], {"tap_core_sdk 1.0", "library 2.1"}),
        (["tap-core-sdk", "library==2.2"], {"tap_core_sdk 1.0", "library 2.2"}),
        (["tap-core-sdk", "library<2"], None),
        (["library<2"], {"library 1.0"}),
    ],
    ids=["any version", "another version", "a version that does not fit", "without the project"],
)
def test_locked_versions_are_kept_unless_the_tap_needs_other_ones(
    tmp_path: Path, needed: list[str], installed: set[str] | None
) -> None:
    packages, venv = tmp_path / "packages", tmp_path / "venv"
    packages.mkdir()
    for version in ("1.0", "2.1", "2.2"):
        write_wheel(packages, "library", version)
    write_wheel(packages, "tap_core_sdk", "1.0", "library>=2")
    write_wheel(packages, "tap_x", "1.0", *needed)
    (tmp_path / "tools" / "bin").mkdir(parents=True)
    (tmp_path / "tools" / "bin" / "pip").write_text(
        f'#!/bin/sh\nexec {sys.executable} -m pip "$@"\n'
    )
    (tmp_path / "tools" / "bin" / "pip").chmod(0o755)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    step = find_step("tap", "Name the tap").replace("/opt/venv", str(venv))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"PATH": path, "TAP": "tap-x", "PIP_NO_INDEX": "1"}
    locked = "tools/bin/pip --python venv/bin/python install --find-links packages"
    commands = f"{locked} tap-core-sdk==1.0 library==2.1; {step}"
    process = subprocess.run(
        ["sh", "-c", commands], cwd=tmp_path, env=env, capture_output=True, check=False
    )
    if installed is None:
        assert process.returncode == 1
        assert b"tap-core-sdk 1.0 depends on library>=2" in process.stdout
    else:
        assert process.returncode == 0, process.stderr
        distributions = metadata.distributions(path=[str(next(venv.glob("lib/*/site-packages")))])
        versions = {f"{dist.name} {dist.version}" for dist in distributions}
        assert versions == {*installed, "tap_x 1.0"}


@pytest.mark.parametrize(
    ("programs", "argument", "linked"),
    [
        (["tap-core", "tap-manifest", "tap-x"], "", "tap-x"),
        (["tap-core", "x"], "x", "x"),
        (["tap-x", "tap-y"], "tap-y", "tap-y"),
        (["tap-core", "tap-manifest"], "", None),
        (["tap-x", "tap-y"], "", None),
        (["tap-x"], "tap-y", None),
    ],
)
def test_entry_point_is_the_only_program_or_the_named_one(
    tmp_path: Path, programs: list[str], argument: str, linked: str | None
) -> None:
    for name in programs:
        (tmp_path / name).touch(mode=0o755)
    step = find_step("tap", "ln -s").replace("/opt/venv/bin", str(tmp_path))
    env = {"PATH": os.environ["PATH"], "TAP": "tap-x", "PROGRAM": argument}
    process = subprocess.run(["sh", "-c", step], env=env, stderr=subprocess.PIPE, check=False)
    assert (process.returncode == 0) is (linked is not None)
    if linked:
        assert (tmp_path / "tap").readlink() == Path(linked)
    else:
        assert b"--build-arg PROGRAM=" in process.stderr


def test_images_of_the_compose_file_are_built_here_or_pinned() -> None:
    for name, service in read_compose()["services"].items():
        if "build" in service:
            build = service["build"]
            dockerfile = FOLDER / build["context"] / build["dockerfile"]
            assert dockerfile.samefile(FOLDER / "Dockerfile"), name
            assert build["target"] in IMAGES
        else:
            assert PINNED.fullmatch(service["image"]), name


def test_build_arguments_of_the_compose_file_are_those_of_the_dockerfile() -> None:
    for service in read_compose()["services"].values():
        if "build" in service:
            image = read_build(service["build"]["target"])
            known = {i.value.partition("=")[0] for i in image if i.name == "ARG"}
            assert set(service["build"].get("args", {})) <= known


def test_services_wait_for_healthy_services() -> None:
    services = read_compose()["services"]
    waits = [
        (name, condition["condition"])
        for service in services.values()
        for name, condition in service.get("depends_on", {}).items()
    ]
    assert waits
    for name, condition in waits:
        assert condition == "service_healthy"
        assert services[name]["healthcheck"]["test"]


@pytest.mark.parametrize("service", ["tap", "target"])
def test_loading_containers_have_a_read_only_root_and_no_privileges(service: str) -> None:
    settings = read_compose()["services"][service]
    assert settings["user"] == "1000:1000"
    assert settings["read_only"] is True
    assert settings["cap_drop"] == ["ALL"]
    assert settings["mem_limit"]
    assert settings["tmpfs"] == ["/tmp:exec"], "Java loads libraries from there"


@pytest.mark.parametrize("service", ["tap", "target"])
def test_script_of_a_loading_container_is_valid(service: str) -> None:
    [shell, options, script] = read_compose()["services"][service]["entrypoint"]
    assert (shell, options) == ("sh", "-ec")
    subprocess.run([shell, "-n", "-c", script.replace("$$", "$")], check=True)


def test_settings_of_the_target_are_valid_and_name_services_of_the_compose_file() -> None:
    text = (FOLDER / "config" / "target.json").read_text("utf-8")
    settings = json.loads(text)
    assert settings.keys() <= SCHEMA["properties"].keys()
    TargetSpark(config=settings)
    hosts = set(re.findall(r"http://([\w-]+):\d+", text))
    assert hosts == {"storage", "catalog"} <= read_compose()["services"].keys()
    assert not re.search(r"(?i)secret|password|access\.key", text)


def test_files_of_the_images_have_no_address_of_a_package_index() -> None:
    for path in (FOLDER / "Dockerfile", FOLDER / "compose.yaml"):
        assert not re.search(r"--(extra-)?index-url|PIP_INDEX_URL", path.read_text("utf-8")), path


def test_folder_of_packages_is_in_the_repository() -> None:
    """The Dockerfile copies it, also without a package."""
    assert (FOLDER / "packages" / "README.md").is_file()
