"""Definitions of a new project for Meltano, equal to the output of the plugin's ``--about``.

The plugin's class does not exist yet, so the definition is made from its base class with the name
and the settings of the project.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from tap_core.about import AboutInfo, define_meltano_plugin
from tap_core.capabilities import (
    SQL_TAP_USE_SINGER_DECIMAL,
    TARGET_HARD_DELETE_CONFIG,
    TARGET_SCHEMA_CONFIG,
    PluginCapabilities,
    TargetCapabilities,
)
from tap_core.config.loading import merge_missing_config_jsonschema
from tap_core.config.meltano_settings import define_settings
from tap_core.io.yaml_writer import write_yaml
from tap_core.plugin_base import PluginBase
from tap_core.scaffold.project_options import Project
from tap_core.scaffold.settings import build_schema
from tap_core.tap_base import Tap
from tap_core.target_base import Target

__all__ = ["describe", "render_plugin_definition", "render_project_entry"]

_DESCRIPTIONS: Final = {
    "tap": "Reads {}.",
    "tap_sql": "Reads {}: every table and view is a stream.",
    "target": "Writes to {}.",
    "target_sql": "Writes to {}: a table for each stream.",
}


def describe(project: Project) -> str:
    """Return the docstring of a new plugin's class."""
    text = _DESCRIPTIONS.get(
        f"{project.plugin_type}_{project.kind}", _DESCRIPTIONS[project.plugin_type]
    )
    return text.format(project.source)


def render_plugin_definition(project: Project) -> str:
    """Return the text of a new project's `plugin.yaml`, which defines the plugin for Meltano."""
    return write_yaml(_define(project))


def render_project_entry(project: Project) -> str:
    """Return the plugin's entry in a new project's `meltano.yml`, with only its own settings."""
    entry = {**_define(project), "settings": define_settings(build_schema(project.settings))}
    entry.pop("variant")
    plugins = "extractors" if project.plugin_type == "tap" else "loaders"
    lines = write_yaml({"plugins": {plugins: [entry]}}).splitlines(keepends=True)
    return "".join(lines[2:])  # without "plugins:" and its only key


def _define(project: Project) -> dict[str, Any]:
    """Return the Meltano definition of a new plugin.

    It has no ``pip_url``, because the plugin is not on a package index yet.
    """
    base: type[PluginBase] = Tap if project.plugin_type == "tap" else Target
    members: dict[str, Any] = {
        "__doc__": describe(project),
        "name": project.name,
        "config_jsonschema": build_schema(project.settings),
        **_sql_members(project),
    }
    plugin: Any = type(project.class_name, (base,), members)
    about: AboutInfo = plugin._get_about_info()  # noqa: SLF001
    return define_meltano_plugin(replace(about, requirement=""))


def _sql_members(project: Project) -> dict[str, Any]:
    """Return the class members that `SQLTap` or `SQLTarget` add to their base class.

    The classes themselves are not used, because they import SQLAlchemy.
    """
    if project.kind != "sql":
        return {}
    schema = build_schema(project.settings)
    if project.plugin_type == "tap":
        merge_missing_config_jsonschema(SQL_TAP_USE_SINGER_DECIMAL, schema)
        return {"config_jsonschema": schema}
    merge_missing_config_jsonschema(TARGET_SCHEMA_CONFIG, schema)
    merge_missing_config_jsonschema(TARGET_HARD_DELETE_CONFIG, schema)
    sql_capabilities = (
        PluginCapabilities.ACTIVATE_VERSION,
        TargetCapabilities.TARGET_SCHEMA,
        TargetCapabilities.HARD_DELETE,
    )
    return {"config_jsonschema": schema, "capabilities": [*Target.capabilities, *sql_capabilities]}
