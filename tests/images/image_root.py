"""Build images of the Dockerfile in folders of this machine, and run them as containers run them.

No registry and no Docker are needed: the base image is this machine's own system (Debian or Ubuntu)
with the Python that runs this program. Each stage is an overlay over it, and its instructions run
in a changed root. /opt, /home, /root and /tmp of this machine are not visible there. Targets that
are built in one folder share their stages. The folder must not be below /usr, /etc or /var, because
Linux refuses an overlay of layers that contain each other. The program needs root. Run it in a
separate mount namespace, which removes all mounts at its end:

    unshare --mount python -m tests.images.image_root build tap-manifest /tmp/images
    unshare --mount --net python -m tests.images.image_root run tap /tmp/images -- --help
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.images.dockerfile import (
    ROOT,
    Instruction,
    Stage,
    expand,
    read_stages,
    select_stages,
)

_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
_SYSTEM = ("usr", "etc", "var")
_SEEN_BY_BUILDS = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy")
_NOBODY = 65534
_MACHINE = "this-machine"
"""Name of the folder with the files of this machine that are visible to the stages."""
_CONTAINER = "container"
"""The folder of what a container adds to its image. It is in memory, and another one for each."""
_TMPFS = "noexec,nosuid,nodev"
"""Options of Docker's for each tmpfs; those of a user come after them."""
_IN_FOLDER = 'cd "$0" && exec "$@"'


@dataclass
class Image:
    """An image in a folder: the stages that it consists of, the oldest first, and its settings."""

    stages: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=lambda: {"PATH": _PATH})
    user: str = "0:0"
    folder: str = "/"
    entry_point: list[str] = field(default_factory=list)


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)


def make_base(work: Path) -> None:
    """Create the files that are visible to the stages in addition to /usr, /etc and /var."""
    root, etc, programs = (work / _MACHINE / name for name in ("root", "etc", "usr/local/bin"))
    for name in ("opt", "home", "root", "tmp", "run", "proc", "dev", "python", *_SYSTEM):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    for name in ("bin", "lib", "lib64", "sbin"):
        if Path("/", name).is_symlink():
            (root / name).symlink_to(Path("/", name).readlink())
    etc.mkdir()
    for name in ("passwd", "group"):  # without the users of this machine: 1000 is the image's
        lines = Path("/etc", name).read_text("utf-8").splitlines(keepends=True)
        kept_lines = [line for line in lines if not 1000 <= int(line.split(":")[2]) < _NOBODY]
        (etc / name).write_text("".join(kept_lines), encoding="utf-8")
    shutil.copy("/etc/resolv.conf", etc / "resolv.conf")
    programs.mkdir(parents=True)
    for name in ("python", "python3"):
        (programs / name).symlink_to(f"/python/bin/python{sys.version_info[0]}")


def mount_stages(work: Path, names: Sequence[str]) -> Path:
    """Mount the overlays of an image's stages; return the root, which is that of the last stage."""
    top = work / names[-1]
    root = top / "merged"
    for part in ("root", *_SYSTEM):
        below = [work / name / part for name in (*reversed(names[:-1]), _MACHINE)]
        system = [] if part == "root" else [Path("/", part)]
        lower = ":".join(str(path) for path in (*filter(Path.is_dir, below), *system))
        for name in (part, f"{part}.work"):
            (top / name).mkdir(parents=True, exist_ok=True)
        if part == "root":
            root.mkdir(exist_ok=True)
        target = root if part == "root" else root / part
        options = f"lowerdir={lower},upperdir={top / part},workdir={top / f'{part}.work'}"
        mount("-t", "overlay", "overlay", "-o", options, target)
    mount("--bind", "-o", "ro", sys.base_prefix, root / "python")
    mount("-t", "proc", "proc", root / "proc")
    mount("--rbind", "/dev", root / "dev")
    return root


def run_in(
    root: Path, command: Sequence[str], env: Mapping[str, str], user: str, folder: str
) -> int:
    """Run a command in a root; return its exit code."""
    settings = [f"{name}={value}" for name, value in env.items()]
    inside = ["/usr/bin/env", "-i", *settings, "/bin/sh", "-c", _IN_FOLDER, folder, *command]
    process = subprocess.run(["chroot", f"--userspec={user}", str(root), *inside], check=False)
    return process.returncode


class Builder:
    """Runs the instructions of a Dockerfile's stages, with files of the repository as context."""

    def __init__(self, work: Path, arguments: Mapping[str, str], context: Path) -> None:
        self._work = work
        self._arguments = arguments
        self._context = context
        self._images: dict[str, Image] = {}
        self._roots: dict[str, Path] = {}

    def build(self, stages: Sequence[Stage]) -> None:
        """Build the stages that do not exist yet."""
        if not (self._work / _MACHINE).is_dir():
            make_base(self._work)
        for stage in stages:
            image_file = self._work / stage.name / "image.json"
            if image_file.is_file():
                self._images[stage.name] = read_image(self._work, stage.name)
                continue
            shutil.rmtree(image_file.parent, ignore_errors=True)  # of a build that failed
            image = self._images[stage.name] = self._build_stage(stage)
            image_file.write_text(json.dumps(asdict(image)))

    def _build_stage(self, stage: Stage) -> Image:
        parent = self._images.get(stage.base, Image())
        image = Image([*parent.stages, stage.name], dict(parent.env), parent.user, parent.folder)
        root = self._roots[stage.name] = mount_stages(self._work, image.stages)
        arguments: dict[str, str] = {}
        for instruction in stage.instructions:
            print(instruction.name, instruction.value, file=sys.stderr, flush=True)
            if instruction.name == "ARG":
                name, _, default = instruction.value.partition("=")
                arguments[name] = self._arguments.get(name, default.strip('"'))
            elif instruction.name == "RUN":
                self._run(root, image, instruction, arguments)
            elif instruction.name == "COPY":
                self._copy(root, image, instruction)
            else:
                _set(root, image, instruction)
        return image

    def _run(
        self, root: Path, image: Image, instruction: Instruction, arguments: Mapping[str, str]
    ) -> None:
        inherited = {k: v for k, v in os.environ.items() if k.startswith(_SEEN_BY_BUILDS)}
        env = {**inherited, **arguments, **image.env, "HOME": "/root"}
        command = ["/bin/sh", "-c", instruction.value]
        code = run_in(root, command, env, image.user, image.folder)
        if code:
            sys.exit(f"RUN ended with {code}: {instruction.value}")

    def _copy(self, root: Path, image: Image, instruction: Instruction) -> None:
        source = self._context
        arguments = instruction.split()
        if arguments[0].startswith("--from="):
            name = arguments.pop(0).removeprefix("--from=")
            if name not in self._roots:
                self._roots[name] = mount_stages(self._work, self._images[name].stages)
            source = self._roots[name]
        *names, target = arguments
        into = root / Path(image.folder, target).relative_to("/")
        for name in names:
            path = source / name.removeprefix("/")
            if path.is_dir():
                shutil.copytree(path, into, symlinks=True, dirs_exist_ok=True)
            else:
                file = into / path.name if target.endswith("/") else into
                file.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, file)


def _set(root: Path, image: Image, instruction: Instruction) -> None:
    """Apply an instruction that sets something of the image."""
    if instruction.name == "ENV":
        for word in expand(instruction.value, image.env).split():
            name, _, image.env[name] = word.partition("=")
    elif instruction.name == "WORKDIR":
        image.folder = str(Path(image.folder, instruction.value))
        (root / Path(image.folder).relative_to("/")).mkdir(parents=True, exist_ok=True)
    elif instruction.name == "USER":
        image.user = instruction.value
    elif instruction.name == "ENTRYPOINT":
        image.entry_point = json.loads(instruction.value)


def export_context(folder: Path) -> None:
    """Copy the repository's files, without those that git ignores, into a folder."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    for name in filter(None, names.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def read_image(work: Path, target: str) -> Image:
    """Return a target that was built in a folder."""
    return Image(**json.loads((work / target / "image.json").read_text("utf-8")))


def build(options: argparse.Namespace) -> int:
    """Build a target."""
    context = options.work / "context"
    export_context(context)
    if options.added:
        shutil.copytree(options.added, context, dirs_exist_ok=True)
    text = (ROOT / "images" / "Dockerfile").read_text("utf-8")
    arguments = dict(text.split("=", 1) for text in options.build_arg)
    Builder(options.work, arguments, context).build(
        select_stages(read_stages(text), options.target)
    )
    return 0


def run(parsed: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Run a target as `docker run --read-only` does; loopback is the only network."""
    image = read_image(parsed.work, parsed.target)
    layer = parsed.work / _CONTAINER
    layer.mkdir(exist_ok=True)
    mount("-t", "tmpfs", "tmpfs", layer)
    root = mount_stages(parsed.work, [*image.stages, _CONTAINER])
    volumes = [text.split(":") for text in parsed.volume]
    tmpfs = [text.partition(":") for text in parsed.tmpfs]
    for folder in [*(volume[1] for volume in volumes), *(folder for folder, _, _ in tmpfs)]:
        Path(f"{root}{folder}").mkdir(parents=True, exist_ok=True)
    with (root / "etc/hosts").open("a") as hosts:
        hosts.writelines(f"127.0.0.1 {name}\n" for name in parsed.local_host)
    for part in ("", *_SYSTEM):
        mount("-o", "remount,ro", root / part)
    for folder, _, options in tmpfs:
        mount("-t", "tmpfs", "-o", f"{_TMPFS},{options}".rstrip(","), "tmpfs", f"{root}{folder}")
    for host, folder, *options in volumes:
        mount("--bind", host, f"{root}{folder}")
        if options:
            mount("-o", f"remount,bind,{options[0]}", f"{root}{folder}")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    settings = {**image.env, "HOME": "/home/loader", **dict(t.split("=", 1) for t in parsed.env)}
    command = [*([parsed.entrypoint] if parsed.entrypoint else image.entry_point), *arguments]
    return run_in(root, command, settings, parsed.user or image.user, image.folder)


def main() -> int:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    building, running = commands.add_parser("build"), commands.add_parser("run")
    for command in (building, running):
        command.add_argument("target")
        command.add_argument("work", type=Path)
    building.add_argument("--build-arg", action="append", default=[])
    building.add_argument("--added", type=Path)
    for option in ("--local-host", "--env", "--tmpfs", "--volume"):
        running.add_argument(option, action="append", default=[])
    running.add_argument("--entrypoint")
    running.add_argument("--user")
    arguments = sys.argv[1:]
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:end])
    return build(options) if options.command == "build" else run(options, arguments[end + 1 :])


if __name__ == "__main__":
    sys.exit(main())
