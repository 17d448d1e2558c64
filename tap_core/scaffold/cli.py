"""Command `tap-core new`: arguments, project creation and next steps.

The command is not interactive, so that it works in scripts; omitted options have defaults.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tap_core.scaffold.auth import AUTHENTICATION
from tap_core.scaffold.pagination import PAGINATION
from tap_core.scaffold.project_options import KINDS, Project, ProjectError
from tap_core.scaffold.render import write

__all__ = ["new"]


def new(arguments: Sequence[str]) -> int:
    """Run the command that creates a project; return 0, or 1 after an error message."""
    options = _parser().parse_args(arguments)
    try:
        project = Project.of(options.name, options.kind, options.auth, options.pagination)
        folder = Path(options.folder or options.name)
        write(project, folder)
    except (ProjectError, OSError) as error:
        print(error, file=sys.stderr)  # noqa: T201  (the command has no log)
        return 1
    print(  # noqa: T201
        f"{project.name} is in {folder}. Next:\n  cd {folder}\n  pip install -e '.[test]'\n  pytest"
    )
    return 0


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    parser = argparse.ArgumentParser(
        prog="tap-core new",
        description="Create a tap or target project with passing tests.",
        epilog="Kinds of a tap: "
        + ", ".join(KINDS["tap"])
        + ". Kinds of a target: "
        + ", ".join(KINDS["target"])
        + ".",
    )
    parser.add_argument("name", help="name of the command: tap-… or target-…")
    parser.add_argument("--kind", help="kind of plugin (default: the first one listed below)")
    parser.add_argument("--auth", help=f"authentication of HTTP taps: {', '.join(AUTHENTICATION)}")
    parser.add_argument("--pagination", help=f"pagination of REST taps: {', '.join(PAGINATION)}")
    parser.add_argument("--folder", help="folder of the project (default: ./NAME)")
    return parser
