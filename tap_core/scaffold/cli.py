"""`tap-core new`: what was asked for on the command line, and what to do next.

Rules of the room: no question is asked, so that it works in scripts; what is not given is
the usual.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tap_core.scaffold.auth import AUTHENTICATION
from tap_core.scaffold.pagination import PAGINATION
from tap_core.scaffold.project import KINDS, Project, ProjectError
from tap_core.scaffold.render import write

__all__ = ["new"]


def new(arguments: Sequence[str]) -> int:
    """Make a project; return the exit code."""
    given = _parser().parse_args(arguments)
    try:
        project = Project.of(given.name, given.kind, given.auth, given.pagination)
        folder = Path(given.folder or given.name)
        write(project, folder)
    except (ProjectError, OSError) as error:
        print(error, file=sys.stderr)  # noqa: T201  (the command has no log)
        return 1
    print(  # noqa: T201
        f"{project.name} is in {folder}. Next:\n  cd {folder}\n  pip install -e '.[test]'\n  pytest"
    )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tap-core new",
        description="Make a project whose own tests pass at once.",
        epilog="Kinds of a tap: "
        + ", ".join(KINDS["tap"])
        + ". Kinds of a target: "
        + ", ".join(KINDS["target"])
        + ".",
    )
    parser.add_argument("name", help="of the command: tap-… or target-…")
    parser.add_argument("--kind", help="what it reads or writes (the first of those below)")
    parser.add_argument("--auth", help=f"of an HTTP tap: {', '.join(AUTHENTICATION)}")
    parser.add_argument("--pagination", help=f"of a REST tap: {', '.join(PAGINATION)}")
    parser.add_argument("--folder", help="where it goes (./NAME)")
    return parser
