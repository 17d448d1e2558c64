"""Rendering of the project templates to files.

A template is a file `templates/<layer>/….txt`. Placeholders such as ``%%name%%`` in its text and
path are replaced. Existing files are never overwritten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tap_core.scaffold.auth import AUTHENTICATION
from tap_core.scaffold.meltano import describe, render_plugin_definition, render_project_entry
from tap_core.scaffold.pagination import PAGINATION
from tap_core.scaffold.project_options import Project, ProjectError
from tap_core.scaffold.settings import render_env_lines, render_properties

__all__ = ["write"]

_TEMPLATES: Final = Path(__file__).parent / "templates"
_PLACEHOLDER: Final = re.compile(r"%%(\w+)%%")
_LINE_LENGTH: Final = 100
"""Maximum length of a line of Python code, as in the settings of ruff in a new project."""

_LONG_IMPORT: Final = re.compile(rf"(?=.{{{_LINE_LENGTH + 1}}})(from \S+ import )(.+)")
_LONG_CALL: Final = re.compile(
    rf"(?=.{{{_LINE_LENGTH + 1}}})( *)((?:\w+ = |class )\w+\()(.+)(\):?)"
)


def write(project: Project, folder: Path) -> list[Path]:
    """Write the project's files into a new folder and return their paths.

    Raises:
        ProjectError: The folder exists and is not empty, or is a file.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ProjectError(
            f"{folder} already exists; nothing was written. Name another folder with --folder."
        )
    written = []
    for name, text in _render_files(project):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def _render_files(project: Project) -> Iterator[tuple[str, str]]:
    """Yield the relative path and the text of each file of a new project.

    Some templates are for all plugins, others for the project's type (tap or target) or its kind.
    """
    placeholders = _make_placeholders(project)
    for layer in ("plugin", project.plugin_type, f"{project.plugin_type}_{project.kind}"):
        root = _TEMPLATES / layer
        for template in sorted(root.rglob("*.txt")):
            path = template.relative_to(root).as_posix().removesuffix(".txt")
            text = _fill(template.read_text(encoding="utf-8"), placeholders)
            yield _fill(path, placeholders), _wrap(text) if path.endswith(".py") else text


def _fill(text: str, placeholders: Mapping[str, str]) -> str:
    """Return a text with each ``%%name%%`` replaced by the value of the placeholder ``name``."""
    return _PLACEHOLDER.sub(lambda match: placeholders[match[1]], text)


def _wrap(code: str) -> str:
    """Wrap the long lines of Python code as ruff does: those with a long name of the project."""
    return "\n".join(map(_wrap_line, code.split("\n")))


def _wrap_line(line: str) -> str:
    """Wrap a line if it is a long import, class statement, or assignment of a call."""
    if match := _LONG_IMPORT.fullmatch(line):
        names = match[2].replace(", ", ",\n    ")
        return f"{match[1]}(\n    {names},\n)"
    if match := _LONG_CALL.fullmatch(line):
        indent, start, arguments, end = match.groups()
        if len(indent) + 4 + len(arguments) > _LINE_LENGTH:
            arguments = arguments.replace(", ", f",\n{indent}    ") + ","
        return f"{indent}{start}\n{indent}    {arguments}\n{indent}{end}"
    return line


def _make_placeholders(project: Project) -> dict[str, str]:
    """Return the texts for the ``%%name%%`` placeholders in the templates, by placeholder name."""
    auth, pages = AUTHENTICATION[project.auth], PAGINATION[project.pagination]
    return {
        "name": project.name,
        "plugin_type": project.plugin_type,
        "sdk_extra": "[sql]" if project.kind == "sql" else "",
        "settings": render_properties(project.settings),
        "description": describe(project),
        "meltano_entry": render_project_entry(project).rstrip("\n"),
        "plugin_definition": render_plugin_definition(project).rstrip("\n"),
        "env_settings": render_env_lines(project.settings, f"{project.package.upper()}_"),
        "package": project.package,
        "class": project.class_name,
        "source": project.source,
        "setting_prefix": project.package.upper(),
        "auth_import": _render_import("tap_core.authenticators", auth.imports),
        "auth_helper": auth.helper,
        "auth_member": auth.member,
        "auth_values_item": f", {auth.values}" if auth.values else "",
        "auth_check": auth.check,
        "cached_property_import": "from functools import cached_property\n" if auth.member else "",
        "pages_import": _render_import("tap_core.pagination", pages.imports),
        "pages_member": pages.member,
        "pages_params": pages.params,
        "pages_page": pages.page,
        "pages_token": pages.token,
        "pages_param_type": _make_optional(pages.token),
        "url_import": _render_import("urllib.parse", "ParseResult, parse_qsl")
        if project.pagination == "link"
        else "",
    }


def _render_import(module: str, names: str) -> str:
    """Return the line ``from module import names``, or an empty string if there are no names."""
    return f"from {module} import {names}\n" if names else ""


def _make_optional(kind: str) -> str:
    """Return the source code of a type that also allows None: ``int`` -> ``int | None``."""
    return kind if kind.endswith("None") else f"{kind} | None"
