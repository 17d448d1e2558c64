"""Parser of the instructions that the project's Dockerfile of several images uses.

Source: Docker's Dockerfile reference. Only the forms that the project uses are supported; any other
one is an error.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "ROOT",
    "Instruction",
    "Stage",
    "expand",
    "read_instructions",
    "read_stages",
    "select_stages",
]

ROOT = Path(__file__).resolve().parents[2]

_KNOWN = {"ARG", "FROM", "RUN", "COPY", "ENV", "WORKDIR", "USER", "ENTRYPOINT", "LABEL"}
_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")


@dataclass(frozen=True)
class Instruction:
    """One instruction: its name in capital letters and the rest of its line or lines."""

    name: str
    value: str

    def split(self) -> list[str]:
        """Return the words of the value, without quotes."""
        return shlex.split(self.value)


@dataclass(frozen=True)
class Stage:
    """One build stage: its name or number, the image or stage it begins with, its instructions."""

    name: str
    base: str
    instructions: tuple[Instruction, ...]

    @property
    def sources(self) -> set[str]:
        """The stages from which this one copies files."""
        options = (i.split()[0] for i in self.instructions if i.name == "COPY")
        return {word.removeprefix("--from=") for word in options if word.startswith("--from=")}


def read_instructions(text: str) -> Iterator[Instruction]:
    """Yield the instructions of a Dockerfile, with continued lines joined by a space."""
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    for line in lines:
        joined = line
        while joined.endswith("\\"):
            joined = f"{joined[:-1].rstrip()} {next(lines).strip()}"
        name, _, value = joined.partition(" ")
        assert name in _KNOWN, joined
        yield Instruction(name, value)


def read_stages(text: str) -> list[Stage]:
    """Return the build stages of a Dockerfile; ``ARG`` before the first one sets their bases."""
    arguments: dict[str, str] = {}
    stages: list[tuple[str, str, list[Instruction]]] = []
    for instruction in read_instructions(text):
        if instruction.name == "FROM":
            base, *alias = expand(instruction.value, arguments).split()
            stages.append((alias[1] if alias else str(len(stages)), base, []))
        elif stages:
            stages[-1][2].append(instruction)
        else:
            name, _, default = instruction.value.partition("=")
            arguments[name] = default
    return [Stage(name, base, tuple(instructions)) for name, base, instructions in stages]


def select_stages(stages: Sequence[Stage], target: str) -> list[Stage]:
    """Return the stages that a target is built from, in their order; the target is the last one."""
    needed = {target}
    for stage in reversed(stages):
        if stage.name in needed:
            needed |= {stage.base, *stage.sources}
    return [stage for stage in stages if stage.name in needed]


def expand(value: str, variables: Mapping[str, str]) -> str:
    """Return a value with its ``$NAME`` and ``${NAME}`` replaced; an unknown one becomes empty."""
    return _VARIABLE.sub(lambda match: variables.get(match[1] or match[2], ""), value)
