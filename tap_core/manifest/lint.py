"""Linter: reports all problems of a manifest in one list.

The linter builds all components of the manifest and collects the problems, instead of raising the
first one. Components that depend on config values are checked as far as possible without a config.
A problem that several components share by reference is listed once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tap_core.config.similar_names import suggest
from tap_core.manifest.builder import Builder
from tap_core.manifest.components.declarative_source import (
    DeclarativeSource,
    DeclarativeStream,
    StateDelegatingStream,
)
from tap_core.manifest.components.resolvers import (
    ConfigComponentsResolver,
    HttpComponentsResolver,
    ParametrizedComponentsResolver,
)
from tap_core.manifest.errors import ManifestError, ManifestProblem
from tap_core.manifest.interfaces import TemplateScope
from tap_core.manifest.lint_names import find_name_problems, find_version_problems
from tap_core.manifest.literals import has_template
from tap_core.manifest.loader import Manifest, get_dynamic_stream_names, read_manifest
from tap_core.manifest.nodes import UNKNOWN, MappingNode
from tap_core.manifest.stream_templates import StreamTemplate, get_lines

__all__ = ["LintResult", "lint_manifest"]


@dataclass(frozen=True, slots=True)
class LintResult:
    """Result of linting a manifest: its problems, sorted by line, and its number of streams."""

    name: str
    """Path of the file, or "manifest"."""
    problems: list[ManifestProblem]
    streams: int
    templates: int
    """Number of dynamic streams; each generates streams from a template."""

    @property
    def has_errors(self) -> bool:
        """True if the manifest or a part of it cannot run."""
        return any(problem.is_error for problem in self.problems)

    def summarize(self) -> str:
        """Return a line such as ``manifest.yaml: 3 streams, 1 error, 2 warnings.``."""
        errors = sum(problem.is_error for problem in self.problems)
        counts = (
            (self.streams, "stream"),
            (self.templates, "stream template"),
            (errors, "error"),
            (len(self.problems) - errors, "warning"),
        )
        parts = [f"{n:,} {noun}{'' if n == 1 else 's'}" for n, noun in counts if n]
        return f"{self.name}: {', '.join(parts if self.problems else [*parts, 'no problems'])}."


def lint_manifest(source: Path | str) -> LintResult:
    """Check an Airbyte manifest, and return its problems and the number of its streams.

    ``source`` is the Path of the YAML file, or the text of the manifest.
    """
    name = str(source) if isinstance(source, Path) else "manifest"
    problems: list[ManifestProblem] = []
    streams = templates = 0
    try:
        manifest = replace(read_manifest(source), problems=problems)
        _check_manifest(manifest, problems)
        streams, templates = len(manifest.streams), len(manifest.dynamic_streams)
    except ManifestError as error:
        problems = [ManifestProblem(error.line, error.path, error.message)]
    distinct: dict[tuple[int, str], ManifestProblem] = {}
    for problem in problems:
        distinct.setdefault((problem.line, problem.message), replace(problem, file=name))
    ordered = sorted(distinct.values(), key=lambda problem: problem.line)
    return LintResult(name, ordered, streams, templates)


def _check_manifest(manifest: Manifest, problems: list[ManifestProblem]) -> None:
    """Check a manifest, and append the problems that are found to ``problems``.

    ``problems`` is the manifest's own list, to which other functions append problems, too.
    """
    Builder(manifest, checks_incomplete=True).build(manifest.tree, DeclarativeSource)
    _check_stream_names(manifest)
    has_errors = any(problem.is_error for problem in problems)
    problems += find_version_problems(manifest)
    if not has_errors:  # the checks of names expect valid components
        problems += find_name_problems(manifest)
    for line, key in manifest.duplicate_keys:
        message = f"the key '{key}' occurs twice: the last one counts."
        manifest.report_problem(line, key, message, is_error=False)


def _check_stream_names(manifest: Manifest) -> None:
    """Report each duplicate stream name, and each unknown name in the manifest's ``check``.

    Also report the problems of stream templates.
    """
    streams = [(str(stream.get("name") or ""), stream) for stream in manifest.streams]
    has_unknown_names = False
    for node in manifest.dynamic_streams:
        for name, stream in _check_template(manifest, node):
            if name is None:
                has_unknown_names = True
            else:
                streams.append((name, stream))
    names = Counter(name for name, _ in streams)
    for name, stream in streams:
        if names[name] > 1:
            message = f"{names[name]} streams are called '{name}'."
            manifest.report_problem(stream.line, stream.path, message)
    if names or has_unknown_names:
        _check_connection_check(manifest, None if has_unknown_names else set(names))


def _check_connection_check(manifest: Manifest, names: Collection[str] | None) -> None:
    """Report each unknown stream name in the connection check of the manifest.

    Report a warning if the manifest has no connection check. ``names`` are the names of all
    streams; None if some names are known only at run time.
    """
    check = manifest.tree.get("check")
    if not isinstance(check, MappingNode):
        message = "there is no check: a connection check reads every stream."
        manifest.report_problem(1, "check", message, is_error=False)
        return
    checked = check.get("stream_names")
    for name in checked if isinstance(checked, list) else ():
        if isinstance(name, str) and names is not None and name not in names:
            line = check.lines.get("stream_names", check.line)
            message = f"there is no stream '{name}'.{suggest(name, names)}"
            manifest.report_problem(line, "check.stream_names", message)
    templates = get_dynamic_stream_names(manifest.dynamic_streams)
    for node in check.get("dynamic_streams_check_configs") or ():
        name = node.get("dynamic_stream_name") if isinstance(node, MappingNode) else None
        if isinstance(name, str) and name not in templates:
            manifest.report_problem(node.line, node.path, f"there is no dynamic stream '{name}'.")


# Stream templates


def _check_template(
    manifest: Manifest, node: MappingNode
) -> Iterator[tuple[str | None, MappingNode]]:
    """Generate the streams of a dynamic stream, check them, and yield (name, node of stream) pairs.

    A name is None if it comes from the config or an API.
    """
    template = _build_template(manifest, node)
    if template is None:
        return
    resolver = template.resolver
    scopes: list[TemplateScope] = [{}]
    if isinstance(resolver, ParametrizedComponentsResolver):
        scopes = list(resolver.scopes())
    for scope in scopes:
        try:
            stream = template.fill(scope)
        except ManifestError as error:
            path = f"{node.path}.components_resolver"
            manifest.report_problem(error.line, path, error.message)
            return
        builder = Builder(manifest, checks_incomplete=True)
        builder.build(stream, DeclarativeStream | StateDelegatingStream)
        yield _get_stream_name(manifest, stream), stream
    _warn_of_unused_mappings(manifest, template, node)


def _build_template(manifest: Manifest, node: MappingNode) -> StreamTemplate | None:
    """Return the stream template of the dynamic stream ``node``, together with its resolver.

    Return None if the template or the resolver has problems. The linter has already reported them.
    """
    template, declared = node.get("stream_template"), node.get("components_resolver")
    if not isinstance(template, MappingNode) or not isinstance(declared, MappingNode):
        return None
    kinds = HttpComponentsResolver | ConfigComponentsResolver | ParametrizedComponentsResolver
    resolver = Builder(replace(manifest, problems=[])).build(declared, kinds)
    if resolver is None:
        return None
    known = {"parameters", "stream_template_config"}
    if isinstance(resolver, ParametrizedComponentsResolver):
        known.add("components_values")
    parents_win = node.get("use_parent_parameters") is not False
    return StreamTemplate(
        template, resolver, get_lines(declared), parents_win=parents_win, known_names=known
    )


def _get_stream_name(manifest: Manifest, stream: MappingNode) -> str | None:
    name = stream.get("name")
    if name is UNKNOWN or (isinstance(name, str) and has_template(name)):
        return None
    if not isinstance(name, str) or not name:
        line = stream.lines.get("name", stream.line)
        message = f"the name of a stream is {name!r}, not a text."
        manifest.report_problem(line, stream.path, message)
        return None
    return name


def _warn_of_unused_mappings(
    manifest: Manifest, template: StreamTemplate, node: MappingNode
) -> None:
    """Report a warning for each component mapping whose path the stream template does not contain.

    Such a mapping changes nothing.
    """
    mappings = node["components_resolver"]["components_mapping"]
    for index in replace(template, known_names={"parameters"}).find_unused_mappings():
        ending = "; `create_or_update: true` creates it" if template.resolver.CREATES else ""
        message = f"this mapping changes nothing: the template has nothing at its path{ending}."
        mapping = mappings[index]
        manifest.report_problem(mapping.line, mapping.path, message, is_error=False)
