"""Settings of a new project, and rendering of the source text that declares them.

From each `ProjectSetting`, functions render the property in the plugin's class and the line in
`.env.example`, and make the JSON Schema for the definitions in `meltano.yml` and `plugin.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tap_core import typing as th
from tap_core.types import JsonSchema

__all__ = [
    "KIND_SETTINGS",
    "ProjectSetting",
    "build_schema",
    "render_env_lines",
    "render_properties",
]


@dataclass(frozen=True)
class ProjectSetting:
    """Setting of a new plugin.

    Attributes:
        name: Name of the setting, such as ``api_url``.
        description: Description of the setting, without a full stop.
        kind: ``string``, ``password`` (a secret) or ``date_iso8601``.
        required: True if the plugin does not start without the setting.
        default: Default value, or None.
    """

    name: str
    description: str
    kind: str = "string"
    required: bool = False
    default: str | None = None


_DATABASE = ProjectSetting(
    "sqlalchemy_url",
    "URL of the database, such as postgresql+psycopg://user:pw@host/name",
    "password",
    required=True,
)
_START = ProjectSetting("start_date", "Earliest change that the first run reads", "date_iso8601")
_HTTP = (
    ProjectSetting("api_url", "URL of the API", default="https://api.example.com"),
    _START,
)
_OUTPUT = ProjectSetting("folder", "Folder to which files are written", required=True)

KIND_SETTINGS: dict[str, tuple[ProjectSetting, ...]] = {
    "tap_rest": _HTTP,
    "tap_graphql": _HTTP,
    "tap_sql": (_DATABASE, _START),
    "tap_other": (ProjectSetting("folder", "Folder of the files to read", required=True),),
    "target_batch": (_OUTPUT,),
    "target_record": (_OUTPUT,),
    "target_sql": (_DATABASE,),
}
"""Settings of each kind of project, without those of the authentication."""


def render_properties(settings: Iterable[ProjectSetting]) -> str:
    """Return Python source code with a ``th.Property`` for each setting, ending with a newline."""
    return "".join(map(_render_property, settings))


def build_schema(settings: Iterable[ProjectSetting]) -> JsonSchema:
    """Return the JSON Schema of a new plugin's settings, as the plugin's generated code has it."""
    return th.PropertiesList(
        *(
            th.Property(
                setting.name,
                th.DateTimeType if setting.kind == "date_iso8601" else th.StringType,
                required=setting.required,
                secret=setting.kind == "password",
                default=setting.default,
                description=setting.description,
            )
            for setting in settings
        )
    ).to_dict()


def render_env_lines(settings: Iterable[ProjectSetting], prefix: str) -> str:
    """Return the text of `.env.example`: a comment and a commented assignment per setting.

    Args:
        settings: The settings of the plugin.
        prefix: Prefix of the variables, such as ``TAP_EXAMPLE_``.
    """
    return "\n".join(
        f"\n# {setting.description}{' (required)' if setting.required else ''}\n"
        f"# {prefix}{setting.name.upper()}={setting.default or ''}"
        for setting in settings
    )


def _render_property(setting: ProjectSetting) -> str:
    """Return Python source code of the ``th.Property`` of a setting, with one argument per line."""
    is_date = setting.kind == "date_iso8601"
    arguments = [f'"{setting.name}"', "th.DateTimeType" if is_date else "th.StringType"]
    if setting.required:
        arguments.append("required=True")
    if setting.kind == "password":
        arguments.append("secret=True")
    if setting.default is not None:
        arguments.append(f'default="{setting.default}"')
    arguments.append(f'description="{setting.description}"')
    lines = "".join(f"            {argument},\n" for argument in arguments)
    return f"        th.Property(\n{lines}        ),\n"
