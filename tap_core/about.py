"""Output of ``--about``: a plugin's description, or its definition for a registry.

Formats of the description are text, JSON (with the keys of singer_sdk) and Markdown. A definition
is a YAML file for Meltano Hub or for Airbyte's connector registry.
"""

from __future__ import annotations

import abc
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from tap_core.capabilities import (
    CapabilitiesEnum,
    PluginCapabilities,
    TapCapabilities,
    TargetCapabilities,
)
from tap_core.config.loading import env_var_name
from tap_core.exceptions import ConfigurationError
from tap_core.redaction import escape_control_characters
from tap_core.types import JsonSchema

__all__ = [
    "AboutFormatter",
    "AboutInfo",
    "AirbyteFormatter",
    "JSONFormatter",
    "MarkdownFormatter",
    "MeltanoFormatter",
    "TextFormatter",
    "changelog_url",
    "define_meltano_plugin",
    "documentation_url",
    "get_supported_pythons",
    "python_versions",
]

_PY_MIN_VERSION, _PY_MAX_VERSION = 10, 13
"""Oldest and newest minor version of Python 3 that the SDK supports."""


@dataclass
class AboutInfo:
    """Description of a plugin, as shown by ``--about``.

    Attributes:
        settings: JSON Schema of the plugin's settings.
        requirement: Argument of ``pip install`` that installs the plugin, such as ``tap-x`` or
            ``tap-core-sdk[spark]``; "" if this is not known.
        documentation_url: URL of the plugin's documentation, or None.
        combinations: JSON Schema keywords, such as ``anyOf``, that require one of several groups of
            settings. These keywords apply in addition to those in ``settings``.
    """

    name: str
    description: str | None
    version: str
    sdk_version: str
    supported_python_versions: Sequence[str] | None
    capabilities: Sequence[CapabilitiesEnum]
    settings: JsonSchema
    env_var_prefix: str
    requirement: str = ""
    documentation_url: str | None = None
    combinations: JsonSchema = field(default_factory=dict)


class AboutFormatter(abc.ABC):
    """Base class of the output formats of ``--about``, such as text and JSON.

    A subclass passes ``format_name`` in its class statement and is registered under that name.
    """

    formats: ClassVar[dict[str, type[AboutFormatter]]] = {}
    format_name: str

    def __init_subclass__(cls, format_name: str) -> None:
        """Register the subclass as the output format named ``format_name``."""
        cls.formats[format_name] = cls
        super().__init_subclass__()

    @classmethod
    def get_formatter(cls, name: str) -> AboutFormatter:
        """Return the formatter for a format, such as ``text`` or ``meltano``.

        Raises:
            KeyError: There is no such format.
        """
        return cls.formats[name]()

    @abc.abstractmethod
    def format_about(self, about_info: AboutInfo) -> str:
        """Return a plugin's description as text in this format."""


class TextFormatter(AboutFormatter, format_name="text"):
    """Formatter that writes plain text, for a terminal."""

    def format_about(self, about_info: AboutInfo) -> str:
        """Return a plugin's description as lines of ``Name: value``, with lists indented."""
        lines = [
            f"Name: {about_info.name}",
            *([f"Description: {about_info.description}"] if about_info.description else []),
            f"Version: {about_info.version}",
            f"SDK Version: {about_info.sdk_version}",
        ]
        if about_info.supported_python_versions:
            lines.append("Supported Python Versions:")
            lines += [f"  - {version}" for version in about_info.supported_python_versions]
        lines.append("Capabilities:")
        lines += [f"  - {capability}" for capability in about_info.capabilities]
        lines.append("Settings:")
        required = about_info.settings.get("required", ())
        for setting, schema in about_info.settings.get("properties", {}).items():
            lines += [
                f"  - Name: {setting}",
                f"    Type: {schema.get('type')}",
                f"    Environment Variable: {env_var_name(about_info.env_var_prefix, setting)}",
                *_format_details(schema, is_required=setting in required),
            ]
        return _escape_lines("\n".join(lines) + "\n")


def _escape_lines(text: str) -> str:
    """Escape control characters in ``--about`` text, except line feeds, to protect the terminal."""
    return "\n".join(map(escape_control_characters, text.split("\n")))


def _format_details(schema: JsonSchema, *, is_required: bool) -> Iterator[str]:
    """Yield the text lines about a setting: whether it is required, its default and description.

    A line without a value is left out.
    """
    if is_required:
        yield "    Required: True"
    if schema.get("default") is not None:
        yield f"    Default: {schema['default']}"
    if description := schema.get("description"):
        yield f"    Description: {' '.join(description.split())}"


class JSONFormatter(AboutFormatter, format_name="json"):
    """Formatter that writes JSON, for other programs."""

    def format_about(self, about_info: AboutInfo) -> str:
        """Return a plugin's description as a JSON object, indented by two spaces."""
        about = {
            "name": about_info.name,
            "description": about_info.description,
            "version": about_info.version,
            "sdk_version": about_info.sdk_version,
            "supported_python_versions": about_info.supported_python_versions,
            "capabilities": [capability.value for capability in about_info.capabilities],
            "settings": about_info.settings,
        }
        return json.dumps(about, indent=2, default=str)


class MarkdownFormatter(AboutFormatter, format_name="markdown"):
    """Formatter that writes Markdown, for the plugin's README."""

    def format_about(self, about_info: AboutInfo) -> str:
        """Return a Markdown page: description, capabilities, Python versions and settings."""
        parts = [
            f"# `{about_info.name}`",
            *([about_info.description] if about_info.description else []),
            "Built with tap_core.",
            "## Capabilities",
            "\n".join(f"- `{capability}`" for capability in about_info.capabilities),
        ]
        if about_info.supported_python_versions:
            versions = "\n".join(f"- {item}" for item in about_info.supported_python_versions)
            parts += ["## Supported Python Versions", versions]
        table = [
            "| Setting | Required | Default | Description |",
            "|:--------|:--------:|:-------:|:------------|",
            *_format_rows(about_info.settings),
        ]
        parts += [
            "## Settings",
            "\n".join(table),
            f"`{about_info.name} --about` shows all settings and capabilities.",
        ]
        return _escape_lines("\n\n".join(parts) + "\n")


def _format_rows(schema: JsonSchema, parent: str = "") -> Iterator[str]:
    """Yield a Markdown table row for each setting of a schema, and for settings inside objects.

    ``parent`` is the path of the object that contains the settings; empty at the top level.
    """
    required = schema.get("required", ())
    for name, setting in schema.get("properties", {}).items():
        path = f"{parent}.{name}" if parent else name
        description = _escape_cell(setting.get("description", ""))
        default = _escape_cell(str(setting.get("default", "None")))
        yield f"| {path} | {name in required} | {default} | {description} |"
        yield from _format_rows(setting, path)


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", "<BR/>")


# Definitions for Meltano and Airbyte

_UNKNOWN_TO_MELTANO: Final = {TargetCapabilities.TARGET_SCHEMA, TargetCapabilities.VALIDATE_RECORDS}


class MeltanoFormatter(AboutFormatter, format_name="meltano"):
    """Formatter that writes a plugin definition for Meltano, as YAML."""

    def format_about(self, about_info: AboutInfo) -> str:
        """Return the plugin definition (YAML) for Meltano Hub or ``meltano add --from-ref``."""
        return _write_yaml(define_meltano_plugin(about_info))


def define_meltano_plugin(info: AboutInfo) -> dict[str, Any]:
    """Return a plugin's definition as a dict in the format of Meltano Hub.

    ``description`` is the first paragraph of the plugin's description. Capabilities that Meltano
    does not know are left out, and so are keys without a value.
    """
    from tap_core.config.meltano_settings import define_settings, list_required_groups

    unknown: set[CapabilitiesEnum] = {*_UNKNOWN_TO_MELTANO}
    if _find_plugin_type(info) == "mapper":
        unknown.add(PluginCapabilities.FLATTENING)
    definition = {
        "name": info.name,
        "namespace": info.name.replace("-", "_"),
        "variant": "default",
        "label": _make_label(info),
        "description": " ".join((info.description or "").strip().partition("\n\n")[0].split()),
        "docs": info.documentation_url,
        "pip_url": info.requirement,
        "executable": info.name,
        "capabilities": sorted(
            {str(capability) for capability in info.capabilities if capability not in unknown}
        ),
        "settings_group_validation": list_required_groups({**info.settings, **info.combinations}),
        "settings": define_settings(info.settings),
    }
    return {key: value for key, value in definition.items() if value}


class AirbyteFormatter(AboutFormatter, format_name="airbyte"):
    """Formatter that writes the ``metadata.yaml`` of an Airbyte connector."""

    def format_about(self, about_info: AboutInfo) -> str:
        """Return the text of a ``metadata.yaml`` with the fields that Airbyte's registry requires.

        The version, the license and the URL of the documentation are left out if they are unknown.

        Raises:
            ConfigurationError: The plugin is a mapper.
        """
        from uuid import NAMESPACE_URL, uuid5  # no other format needs it

        if _find_plugin_type(about_info) == "mapper":
            raise ConfigurationError(
                f"{about_info.name} is a mapper, which Airbyte does not have. --format=airbyte"
                " describes taps and targets."
            )
        is_target = _find_plugin_type(about_info) == "target"
        connector = f"{'destination' if is_target else 'source'}-{_strip_plugin_type(about_info)}"
        data = {
            "name": _make_label(about_info),
            "connectorType": connector.partition("-")[0],
            "connectorSubtype": "database" if is_target else "api",
            "definitionId": str(uuid5(NAMESPACE_URL, about_info.name)),
            "dockerRepository": connector,
            "dockerImageTag": about_info.version if about_info.version[:1].isdigit() else None,
            "documentationUrl": about_info.documentation_url,
            "githubIssueLabel": connector,
            "license": _find_license(about_info.requirement),
            "releaseStage": "alpha",
            "supportLevel": "community",
            "tags": ["language:python"],
        }
        known = {key: value for key, value in data.items() if value}
        return _write_yaml({"metadataSpecVersion": "1.0", "data": known})


def _write_yaml(document: Mapping[str, Any]) -> str:
    from tap_core.io.yaml_writer import write_yaml  # only needed for these formats

    return write_yaml(document).rstrip("\n")


def _find_plugin_type(info: AboutInfo) -> str:
    """Return "tap", "target" or "mapper", based on a plugin's capabilities and its name."""
    if any(isinstance(capability, TapCapabilities) for capability in info.capabilities):
        return "tap"
    is_target = any(isinstance(capability, TargetCapabilities) for capability in info.capabilities)
    return "target" if is_target or info.name.startswith("target-") else "mapper"


def _strip_plugin_type(info: AboutInfo) -> str:
    """Return the name of a plugin without its type: ``tap-x`` -> ``x``."""
    return info.name.removeprefix(f"{_find_plugin_type(info)}-")


def _make_label(info: AboutInfo) -> str:
    from tap_core.config.titles import make_title

    return make_title(_strip_plugin_type(info))


def _find_license(requirement: str) -> str | None:
    """Return the license expression in the metadata of an installed distribution, or None.

    ``requirement`` is the name of the distribution, with or without extras in brackets.
    """
    from importlib import metadata

    try:
        package: Any = metadata.metadata(requirement.partition("[")[0])
    except (metadata.PackageNotFoundError, ValueError):
        return None
    expression: str | None = package.get("License-Expression") or package.get("License")
    return expression


# Python versions


def get_supported_pythons(
    requires_python: str,
    *,
    classifiers: list[str] | None = None,
) -> Iterator[str]:
    """Yield the Python 3 versions that a plugin's package supports, such as ``3.12``.

    The versions are those in ``classifiers``. If that is empty or None, they are the versions that
    satisfy ``requires_python`` (such as ``>=3.10,<4``) and that the SDK supports.
    """
    if classifiers:
        yield from classifiers
        return
    specifiers = [part.strip() for part in requires_python.split(",") if part.strip()]
    for minor in range(_PY_MIN_VERSION, _PY_MAX_VERSION + 1):
        if all(_allows(specifier, minor) for specifier in specifiers):
            yield f"3.{minor}"


def _allows(specifier: str, minor: int) -> bool:
    """Return True if a specifier, such as ``>=3.10``, allows a release of Python 3.``minor``."""
    operator = specifier.rstrip("0123456789.* ")
    parts = specifier[len(operator) :].split(".")
    release = tuple(int(part) for part in parts if part.strip().isdigit())
    version = (3, minor)
    bound = (*release, 0)[:2]
    has_patch = len(release) > 2  # noqa: PLR2004
    is_same = version[: len(release)] == release[:2]
    results = {
        ">=": version >= bound,
        ">": version > bound or (is_same and has_patch),
        "<=": version <= bound,
        "<": version < bound or (is_same and any(release[2:])),
        "~=": is_same if has_patch else version >= bound and version[0] == bound[0],
        "==": is_same,
        "!=": has_patch or not is_same,
    }
    return results.get(operator, True)


def documentation_url(package_metadata: Any) -> str | None:
    """Return the documentation URL in a package's metadata.

    Without one, return the URL of the home page or the source code, or None.
    """
    labels = ("documentation", "docs", "homepage", "repository", "source")
    return _find_project_url(package_metadata, labels) or package_metadata.get("Home-page")


def changelog_url(package_metadata: Any) -> str | None:
    """Return the changelog URL in a package's metadata, or None.

    The URL must have one of the labels that the Python Packaging User Guide lists for changelogs,
    such as ``changelog``.
    """
    labels = ("changelog", "change log", "changes", "release notes", "what's new", "history")
    return _find_project_url(package_metadata, labels)


def _find_project_url(package_metadata: Any, wanted: Iterable[str]) -> str | None:
    labels = [entry.partition(",") for entry in package_metadata.get_all("Project-URL") or []]
    known = {label.strip().lower(): url.strip() for label, _, url in labels}
    return next(filter(None, map(known.get, wanted)), None)


def python_versions(package_metadata: Any) -> list[str]:
    """Return the Python versions that a package's metadata declares, such as ``["3.12"]``."""
    classifiers = [
        classifier.split("::")[-1].strip()
        for classifier in package_metadata.get_all("Classifier") or []
        if classifier.startswith("Programming Language :: Python :: 3.")
    ]
    requires = package_metadata.get("Requires-Python") or f">=3.{_PY_MIN_VERSION}"
    return list(get_supported_pythons(requires, classifiers=classifiers))
