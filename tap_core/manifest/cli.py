"""Command `tap-manifest`: runs a manifest as a tap, under Singer, Airbyte or Fivetran.

The command takes its own flags (the manifest, and the behaviours in which this SDK differs from
airbyte-cdk) and passes all other arguments unchanged to the tap's CLI. Problems of a manifest are
printed as lines, without a traceback.
"""

from __future__ import annotations

import gc
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tap_core.exceptions import ConfigurationError
from tap_core.io.private_files import replace_file
from tap_core.redaction import redact_line, write_to_stderr

__all__ = ["main"]

_USAGE: Final = """\
Usage: tap-manifest --manifest FILE [OPTION ...]
       tap-manifest spec|check|discover|read --manifest FILE [OPTION ...]
       tap-manifest lint [--manifest] FILE ...
       tap-manifest try FILE STREAM [--config FILE] [--limit N]
       tap-manifest install NAME --manifest FILE

Runs a connector that is declared in YAML. With --config, --catalog, --state, --discover, --about
it is a Singer tap; with the command spec, check, discover or read an Airbyte source; with --port N
a Fivetran connector.
The environment variable TAP_MANIFEST_FILE replaces --manifest.

lint: list the problems of manifests by line. The exit code is 1 if a manifest cannot run.
try: show the requests and the first N (5) records of a stream, and its schema beside theirs.
install: write an executable NAME that runs the manifest, for clients that need a single path.

  --cutoff last_record|interval_end  bookmark stored when a window is closed (TAP_MANIFEST_CUTOFF)
  --boundary send|drop               records that equal the bookmark (TAP_MANIFEST_BOUNDARY)
  --new-slices start|global_cursor   start of a slice that is new in a later sync
                                     (TAP_MANIFEST_NEW_SLICES)
"""
_FLAGS: Final = {
    "--manifest": "TAP_MANIFEST_FILE",
    "--cutoff": "TAP_MANIFEST_CUTOFF",
    "--boundary": "TAP_MANIFEST_BOUNDARY",
    "--new-slices": "TAP_MANIFEST_NEW_SLICES",
}
_CONFIG: Final = "--config"
_CHOICES: Final = {
    "--cutoff": ("last_record", "interval_end"),
    "--boundary": ("send", "drop"),
    "--new-slices": ("start", "global_cursor"),
}


@dataclass
class _ParsedArguments:
    """Parsed flags of this command, and the arguments to pass to the tap's command line."""

    own: dict[str, str] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; ``argv`` None uses ``sys.argv``."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        command = {"lint": _lint, "try": _try_stream}.get(arguments[0]) if arguments else None
        if command is not None:
            return command(arguments[1:])
        given = _split_arguments(arguments)
        if given.rest[:1] == ["install"]:
            return _install(given)
        if not given.own.get("--manifest"):
            asked = {"--help", "-h"}.intersection(arguments)
            print(_USAGE, end="", file=sys.stdout if asked else sys.stderr)
            return 0 if asked else 2
        return _run(given)
    except ConfigurationError as error:
        return _failed(str(error))
    except ModuleNotFoundError as missing:
        if missing.name not in {"jinja2", "yaml"}:
            raise
        needed = "pip install 'tap-core-sdk[manifest]'"
        return _failed(
            f"Manifests need the package {missing.name}, which is missing: run {needed}."
        )


def _failed(message: str) -> int:
    write_to_stderr(f"{redact_line(message)}\n")
    return 1


def _split_arguments(arguments: Sequence[str]) -> _ParsedArguments:
    """Separate the flags of this command from the arguments for the tap.

    A flag that is not passed is read from its environment variable, if that is set.
    """
    given = _ParsedArguments()
    rest = iter(arguments)
    for argument in rest:
        name, is_joined, value = argument.partition("=")
        if name not in _FLAGS:
            given.rest.append(argument)
            continue
        given.own[name] = value if is_joined else next(rest, "")
        if not given.own[name]:
            raise ConfigurationError(f"{name} needs a value.")
    for name, variable in _FLAGS.items():
        if name not in given.own and os.environ.get(variable):
            given.own[name] = os.environ[variable]
    for name, choices in _CHOICES.items():
        if given.own.get(name, choices[0]) not in choices:
            raise ConfigurationError(
                f"{name} must be one of {', '.join(choices)}, not '{given.own[name]}'."
            )
    return given


def _run(arguments: _ParsedArguments) -> int:
    from tap_core.manifest.tap import make_tap_class

    changes = {
        name.removeprefix("--").replace("-", "_"): arguments.own[name]
        for name in _CHOICES
        if name in arguments.own
    }
    made = make_tap_class(Path(arguments.own["--manifest"]), changes)
    made.config_file = _config_file(arguments.rest)
    gc.freeze()  # modules and the document live as long as the process
    gc.set_threshold(20_000, 20, 20)  # requests create few reference cycles
    code = made.cli(arguments.rest, prog_name="tap-manifest")
    return code if isinstance(code, int) else 0


def _config_file(arguments: Sequence[str]) -> Path | None:
    """Return the path of the config file if ``--config`` names exactly one file; otherwise None.

    The path is needed before the tap parses its arguments: stream discovery may refresh a token and
    write it to the config file.
    """
    words = iter(arguments)
    pairs = (word.partition("=") for word in words)
    found = [
        value if joined else next(words, "") for name, joined, value in pairs if name == _CONFIG
    ]
    return Path(found[0]).absolute() if len(found) == 1 and found != ["ENV"] else None


def _lint(arguments: Sequence[str]) -> int:
    flag = "--manifest"
    paths = [one.removeprefix(f"{flag}=") for one in arguments if one != flag]
    paths = paths or [*filter(None, [os.environ.get(_FLAGS[flag])])]
    if not paths or {"--help", "-h"}.intersection(paths):
        print(_USAGE, end="")  # noqa: T201  (the command's result)
        return 0 if paths else 2
    from tap_core.manifest.lint import lint_manifest

    is_bad = False
    for path in paths:
        result = lint_manifest(Path(path))
        for line in [*map(str, result.problems), result.summarize()]:
            print(redact_line(line))  # noqa: T201  (the command's result)
        is_bad = is_bad or result.has_errors
    return int(is_bad)


def _try_stream(arguments: Sequence[str]) -> int:
    """Show the first records of a stream; ``arguments`` are a manifest, a stream and options."""
    is_help = bool({"--help", "-h"}.intersection(arguments))
    if is_help or len(arguments) < 2 or any(one.startswith("-") for one in arguments[:2]):  # noqa: PLR2004  (FILE STREAM)
        print(_USAGE, end="", file=sys.stdout if is_help else sys.stderr)
        return 0 if is_help else 2
    manifest, *rest = arguments
    return _run(_split_arguments(["--manifest", manifest, "test-stream", *rest]))


def _install(arguments: _ParsedArguments) -> int:
    """Write an executable script that runs the manifest with these flags; return the exit code."""
    if len(arguments.rest) != 2 or not arguments.own.get("--manifest"):  # noqa: PLR2004  (install NAME)
        raise ConfigurationError("Usage: tap-manifest install NAME --manifest FILE")
    manifest = Path(arguments.own["--manifest"]).resolve()
    if not manifest.is_file():
        raise ConfigurationError(f"There is no manifest '{manifest}'.")
    words = ["-m", "tap_core.manifest.cli"]
    for name, value in {**arguments.own, "--manifest": str(manifest)}.items():
        words += [name, value]
    path = Path(arguments.rest[1])
    line = " ".join(map(shlex.quote, [sys.executable, *words]))
    replace_file(path, f'#!/bin/sh\nexec {line} "$@"\n', mode=0o755)
    print(path.resolve())  # noqa: T201  (the command's result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
