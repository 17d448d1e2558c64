"""MkDocs hooks of the documentation's site: generated pages, rewritten links and code fences.

Pages in `docs/` are written for the repository: some links lead to files outside `docs/`, and code
fences have options for tests. Both are rewritten for the site. The reference is generated from the
code: settings of target-spark, components of manifests, and a page for each module that the
navigation lists below `reference/api/`. `llms.txt` has a line for each page.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import logging
import posixpath
import re
import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.public_names import find_undocumented_names, read_summary  # noqa: E402  needs the path
from tap_core.about import MarkdownFormatter  # noqa: E402
from tap_core.manifest.builder import is_accepted  # noqa: E402
from tap_core.manifest.registry import MODULES, get_component_class  # noqa: E402
from tap_core.manifest.type_hints import FieldType, get_component_plan  # noqa: E402
from target_spark.target import TargetSpark  # noqa: E402

_LOG: Final = logging.getLogger("mkdocs.site_hooks")
"""Logger whose warnings end a strict build."""

for _name in ("overridable_property", "overridable_cached_property"):
    # griffe reads the code without importing it, and does not know that these are properties.
    griffe.stdlib_decorators[f"tap_core.compat.author_overrides.{_name}"] = {"property"}

_API: Final = "reference/api/"
_SETTINGS: Final = "reference/settings.md"
_COMPONENTS: Final = "reference/components.md"
_DESCRIPTIONS: Final = {
    _SETTINGS: "all settings of target-spark, with defaults",
    _COMPONENTS: "all components of a manifest, with their options",
    "README.md": "installation, a first tap, and the ways to run it",
    "CHANGELOG.md": "what has changed, by version",
}
"""Pages that are not in the README's table of pages."""

_FROM_ROOT: Final = {
    "overview.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "reporting.md": "SECURITY.md",
    "changelog.md": "CHANGELOG.md",
}
"""Pages of the site that are files in the root of the repository."""

_FENCE: Final = re.compile(r"^( *```\w+)[ \t]+(.+)$", re.MULTILINE)
_FILE: Final = re.compile(r"""\bfile=["']?([^"'\s]+)""")
_LINK: Final = re.compile(
    r"(?P<code>^ *```.*?^ *```$)|(?P<begin>\]\(|^\[[^\]]+\]: )(?!\w+:|#)(?P<address>[^)#\s]+)",
    re.MULTILINE | re.DOTALL,
)
"""Code block, or link to a file, inline or as a link definition such as `[name]: address`."""

_ROW: Final = re.compile(r"^\| (\[.+?) \| (.+) \|$", re.MULTILINE)
_SCALARS: Final = {str: "text", int: "integer", float: "number", bool: "true or false"}
_KINDS: Final = {
    "text": "text, may be a template",
    "value": "any value, may have templates",
    "condition": "a template that gives true or false",
    "node": "a component",
    "draft": "a component that is completed later",
}


# Events of MkDocs


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages; warn of public names that have no docstring."""
    for page, source in _FROM_ROOT.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    modules = [_get_module(page) for _, page in find_pages(config.nav) if page.startswith(_API)]
    contents = {f"{_API}{module}.md": f"# {module}\n\n::: {module}\n" for module in modules}
    contents[_SETTINGS] = make_settings_page()
    contents[_COMPONENTS] = make_components_page()
    for page, content in contents.items():
        files.append(File.generated(config, page, content=content))
    for name in find_undocumented_names(modules):
        _LOG.warning("The public name %s has no docstring.", name)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links and code fences of a page, and set its description."""
    del files
    name = page.file.src_uri
    page.meta["description"] = find_description(name)
    return rewrite_fences(rewrite_links(markdown, name, f"{config.repo_url}/blob/main"))


def on_env(env: Any, config: MkDocsConfig, files: Files) -> Any:
    """Add `llms.txt`: title, address and description of each page, by section."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    for section, pages in groupby(find_pages(config.nav), key=itemgetter(0)):
        lines += ["", f"## {section}", ""]
        for _, name in pages:
            file = files.get_file_from_path(name)
            assert file is not None  # noqa: S101  a strict build ends before
            assert file.page is not None  # noqa: S101
            title = f"[{file.page.title}]({file.url})"
            lines.append(f"- {title}: {file.page.meta['description']}")
    content = "\n".join([*lines, ""])
    files.append(File.generated(config, "llms.txt", content=content))
    return env


# Pages of the repository


def find_pages(nav: Any, section: str = "") -> Iterator[tuple[str, str]]:
    """Yield the pages of a navigation in order, each with its section of the first level."""
    if isinstance(nav, str):
        yield section, nav
    elif isinstance(nav, Mapping):
        for name, part in nav.items():
            yield from find_pages(part, section or name)
    else:
        for part in nav:
            yield from find_pages(part, section)


def find_description(page: str) -> str:
    """Return the one-line description of a page, from the README's table or from its module."""
    if page.startswith(_API):
        return read_summary(_get_module(page))
    about = dict(_DESCRIPTIONS)
    for links, text in _ROW.findall((ROOT / "README.md").read_text("utf-8")):
        about |= {link.removeprefix("docs/"): text for link in re.findall(r"\((.+?)\)", links)}
    return about[_FROM_ROOT.get(page, page)]


def _get_module(page: str) -> str:
    return page.removeprefix(_API).removesuffix(".md")


def rewrite_links(markdown: str, page: str, repository: str) -> str:
    """Return a page with links that work in the site.

    Args:
        markdown: The text of the page.
        page: Its path in the site.
        repository: The URL below which files of the repository are shown.
    """
    pages = {source: name for name, source in _FROM_ROOT.items()}
    folder = posixpath.dirname(_FROM_ROOT.get(page, f"docs/{page}"))

    def rewrite(link: re.Match[str]) -> str:
        if link["code"]:
            return link[0]
        target = posixpath.normpath(posixpath.join(folder, link["address"]))
        if target in pages or target.startswith("docs/"):
            name = pages.get(target, target.removeprefix("docs/"))
            return link["begin"] + posixpath.relpath(name, posixpath.dirname(page) or ".")
        return f"{link['begin']}{repository}/{target}"

    return _LINK.sub(rewrite, markdown)


def rewrite_fences(markdown: str) -> str:
    """Return a page whose code fences have no options of tests; file names become titles."""

    def rewrite(fence: re.Match[str]) -> str:
        file = _FILE.search(fence[2])
        return f'{fence[1]} title="{file[1]}"' if file else fence[1]

    return _FENCE.sub(rewrite, markdown)


# Pages from the code


def make_settings_page() -> str:
    """Return the page of all settings of target-spark, as `target-spark --about` writes it."""
    about = TargetSpark._get_about_info()  # noqa: SLF001  `--about` prints it
    return MarkdownFormatter().format_about(about)


def make_components_page() -> str:
    """Return the page of all components of manifests: descriptions, and options with types."""
    package = griffe.load("tap_core", search_paths=[str(ROOT)], allow_inspection=False)
    parts = [
        "# Components of manifests",
        "Each `type` of a manifest with its options. [Manifests](../manifest.md) shows their use.",
    ]
    for module, names in groupby(MODULES, key=MODULES.__getitem__):
        parts.append(f"## {module.rpartition('.')[2].replace('_', ' ').capitalize()}")
        for name in names:
            cls = get_component_class(name)
            assert cls is not None  # noqa: S101  it is in the registry
            documented = package[f"{module.removeprefix('tap_core.')}.{name}"]
            parts += [f"### {name}", *describe_component(cls, documented)]
    return "\n\n".join(parts) + "\n"


def describe_component(cls: type, documented: griffe.Object | griffe.Alias) -> Iterator[str]:
    """Yield a component's description, the table of its options, and its options without effect."""
    summary = re.split(r"\n\n(?:Args|Attributes|Examples?|Raises):", inspect.getdoc(cls) or "")[0]
    yield summary
    plan = get_component_plan(cls)
    all_texts = _read_option_texts(documented)
    texts = {option: text for option, text in all_texts.items() if option in plan.field_types}
    defaults = {field.name: field.default for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    rows = []
    for option, shape in plan.field_types.items():
        default = "required" if option in plan.required else _format_default(defaults[option])
        rows.append([f"`{option}`", describe_values(shape), default, texts.get(option, "")])
    if rows:
        titles = ["Option", "Values", "Default", *(["Description"] if texts else [])]
        table = [titles, ["---"] * len(titles), *(row[: len(titles)] for row in rows)]
        yield "\n".join(f"| {' | '.join(row)} |" for row in table)
    if plan.ignored:
        yield f"Accepted without effect: {', '.join(f'`{name}`' for name in sorted(plan.ignored))}."


def describe_values(shape: FieldType) -> str:
    """Return the values that an option accepts, in words, with links to components."""
    parts = [f"`{literal}`" for literal in shape.literals]
    parts += [text for scalar, text in _SCALARS.items() if scalar in shape.scalars]
    parts += [_KINDS[shape.kind]] if shape.kind else []
    parts += ["any value"] if shape.is_any else []
    parts += [text for component in shape.components for text in _describe_components(component)]
    if shape.item is not None:
        parts.append(f"list of: {describe_values(shape.item)}")
    if shape.value is not None:
        parts.append(f"mapping to: {describe_values(shape.value)}")
    return "; ".join(dict.fromkeys(parts)) or "a value"


def _describe_components(expected: type) -> Iterator[str]:
    """Yield links to the components that an option of this type accepts."""
    takes_custom_code = getattr(expected, "_is_protocol", False)  # then of each kind
    for name in MODULES:
        is_custom = takes_custom_code and name.startswith("Custom")
        if is_accepted(get_component_class(name), expected) and not is_custom:
            yield f"[{name}](#{name.lower()})"
    if takes_custom_code:
        yield "[custom code](../manifest.md#custom-code)"


def _format_default(default: object) -> str:
    """Return a default value as in YAML, or "" if a manifest cannot contain it."""
    is_plain = isinstance(default, (str, int, float, tuple))
    return f"`{json.dumps(default, default=str)}`".replace("|", "\\|") if is_plain else ""


def _read_option_texts(documented: griffe.Object | griffe.Alias) -> dict[str, str]:
    """Return descriptions of options, from the class's docstring and those of its fields."""
    texts = {
        name: member.docstring.value
        for name, member in documented.members.items()
        if member.is_attribute and member.docstring
    }
    sections = documented.docstring.parse("google", warnings=False) if documented.docstring else []
    for section in sections:
        if section.kind is griffe.DocstringSectionKind.parameters:
            texts |= {item.name: item.description for item in section.value}
    return {name: " ".join(text.split()).replace("|", "\\|") for name, text in texts.items()}
