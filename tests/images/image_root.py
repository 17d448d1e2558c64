"""Build the image of a Dockerfile in folders of this machine, and run it as a container runs it.

No registry and no Docker are needed: the base image is this machine's own system (Debian or Ubuntu)
with the Python that runs this program. Each stage is an overlay over it, and its instructions run
in a changed root. /opt, /home, /root and /tmp of this machine are not visible there. It needs root.
Run it in a mount namespace of its own, which takes all mounts with it when it ends:

    unshare --mount python -m tests.images.image_root build images/tap/Dockerfile /var/tmp/image
    unshare --mount --net python -m tests.images.image_root run /var/tmp/image -- --version
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

from tests.images.dockerfile import ROOT, Instruction, Stage, expand, read_stages

_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
_SYSTEM = ("usr", "etc", "var")
_SEEN_BY_BUILDS = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy")
_NOBODY = 65534
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
    """Create what the stages see of this machine in addition to /usr, /etc and /var."""
    root, etc, programs = (work / "base" / name for name in ("root", "etc", "usr/local/bin"))
    for name in ("opt", "home", "root", "tmp", "run", "proc", "dev", "python", *_SYSTEM):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    for name in ("bin", "lib", "lib64", "sbin"):
        if Path("/", name).is_symlink():
            (root / name).symlink_to(Path("/", name).readlink())
    etc.mkdir()
    for name in ("passwd", "group"):  # without the users of this machine: 1000 is the image's
        lines = Path("/etc", name).read_text("utf-8").splitlines(keepends=True)
        kept = [line for line in lines if not 1000 <= int(line.split(":")[2]) < _NOBODY]
        (etc / name).write_text("".join(kept), encoding="utf-8")
    shutil.copy("/etc/resolv.conf", etc / "resolv.conf")
    programs.mkdir(parents=True)
    for name in ("python", "python3"):
        (programs / name).symlink_to(f"/python/bin/python{sys.version_info[0]}")


def mount_stages(work: Path, names: Sequence[str]) -> Path:
    """Mount the overlays of an image's stages; return the root, which is that of the last stage."""
    top = work / names[-1]
    root = top / "merged"
    for part in ("root", *_SYSTEM):
        below = [work / name / part for name in (*reversed(names[:-1]), "base")]
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
    done = subprocess.run(["chroot", f"--userspec={user}", str(root), *inside], check=False)
    return done.returncode


class Builder:
    """Runs the instructions of one Dockerfile's stages, with files of the repository as context."""

    def __init__(self, work: Path, arguments: Mapping[str, str], context: Path) -> None:
        self._work = work
        self._arguments = arguments
        self._context = context
        self._images: dict[str, Image] = {}

    def build(self, stages: Sequence[Stage]) -> Image:
        """Build all stages; return the last one, which is the image."""
        make_base(self._work)
        for stage in stages:
            self._images[stage.name] = self._build_stage(stage)
        return self._images[stages[-1].name]

    def _build_stage(self, stage: Stage) -> Image:
        parent = self._images.get(stage.base, Image())
        image = Image([*parent.stages, stage.name], dict(parent.env), parent.user, parent.folder)
        root = mount_stages(self._work, image.stages)
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
        given = {k: v for k, v in os.environ.items() if k.startswith(_SEEN_BY_BUILDS)}
        env = {**given, **arguments, **image.env, "HOME": "/root"}
        command = ["/bin/sh", "-c", instruction.value]
        code = run_in(root, command, env, image.user, image.folder)
        if code:
            sys.exit(f"RUN ended with {code}: {instruction.value}")

    def _copy(self, root: Path, image: Image, instruction: Instruction) -> None:
        source = self._context
        words = instruction.split()
        if words[0].startswith("--from="):
            source = self._work / words.pop(0).removeprefix("--from=") / "merged"
        *names, target = words
        into = root / Path(image.folder, target).relative_to("/")
        for name in names:
            path = source / name.removeprefix("/")
            if path.is_dir():
                shutil.copytree(path, into, symlinks=True, dirs_exist_ok=True)
            else:
                shutil.copy2(path, into / path.name if target.endswith("/") else into)


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


def build(dockerfile: Path, work: Path, arguments: Mapping[str, str], added: Path | None) -> int:
    context = work / "context"
    export_context(context)
    if added:
        shutil.copytree(added, context, dirs_exist_ok=True)
    image = Builder(work, arguments, context).build(read_stages(dockerfile.read_text("utf-8")))
    (work / "image.json").write_text(json.dumps(asdict(image)))
    return 0


def run(
    work: Path,
    arguments: Sequence[str],
    volumes: Sequence[str],
    entry_point: str | None,
) -> int:
    """Run an image: root read-only, /tmp empty and writable, loopback the only network."""
    image = Image(**json.loads((work / "image.json").read_text()))
    root = mount_stages(work, image.stages)
    for volume in volumes:
        host, _, inside = volume.partition(":")
        target = root / inside.lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        mount("--bind", host, target)
    for part in ("", *_SYSTEM):
        mount("-o", "remount,ro", root / part)
    mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", root / "tmp")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    settings = {**image.env, "HOME": "/home/loader"}
    command = [*([entry_point] if entry_point else image.entry_point), *arguments]
    return run_in(root, command, settings, image.user, image.folder)


def main() -> int:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build")
    building.add_argument("dockerfile", type=Path)
    building.add_argument("work", type=Path)
    building.add_argument("--build-arg", action="append", default=[])
    building.add_argument("--added", type=Path)
    running = commands.add_parser("run")
    running.add_argument("work", type=Path)
    running.add_argument("--volume", action="append", default=[])
    running.add_argument("--entrypoint")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    given = parser.parse_args(words[:end])
    if given.command == "build":
        arguments = dict(text.split("=", 1) for text in given.build_arg)
        return build(given.dockerfile, given.work, arguments, given.added)
    return run(given.work, words[end + 1 :], given.volume, given.entrypoint)


if __name__ == "__main__":
    sys.exit(main())
