"""Write the definitions of plugins into samples/meltano.yml and the templates of `tap-core new`.

The definitions are those of ``--about --format=meltano``, without the keys that depend on the
installed package. Run the script in the repository's folder after a change of the settings:

    .venv/bin/python scripts/write_meltano_definitions.py

Keys that a file adds to a definition (``config``, ``select``) are kept.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

from tap_core.about import define_meltano_plugin
from tap_core.io.yaml_writer import write_yaml
from tap_core.plugin_base import PluginBase
from tap_flights.tap import TapFlights
from target_spark.target import TargetSpark

ROOT = Path(__file__).parents[1]
TEMPLATES = ROOT / "tap_core" / "scaffold" / "templates"
FILES: dict[Path, tuple[str, ...]] = {
    ROOT / "samples" / "meltano.yml": (),
    TEMPLATES / "tap" / "meltano.yml.txt": ("path", "format", "write_mode", "job", "small_runs"),
    TEMPLATES / "target" / "meltano.yml.txt": ("path", "job"),
}
"""Settings of target-spark in each file; all of them if the tuple is empty."""

_ENTRY = r"^    - name: {}\n.*?(?=^      (?:config|select):)"


def define(plugin: type[PluginBase], names: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the definition of a plugin with the settings ``names``, or with all settings."""
    definition = define_meltano_plugin(plugin._get_about_info())  # noqa: SLF001
    left_out = {"docs", "pip_url", "variant"}
    document = {key: value for key, value in definition.items() if key not in left_out}
    if names:
        document["settings"] = [
            setting for setting in document["settings"] if setting["name"] in names
        ]
        document.pop("settings_group_validation", None)
    return document


def render(path: Path) -> str:
    """Return the text of one of the files with its definitions updated."""
    text = path.read_text("utf-8")
    for plugin, names in ((TapFlights, ()), (TargetSpark, FILES[path])):
        entry = re.compile(_ENTRY.format(plugin.name), re.MULTILINE | re.DOTALL)
        text = entry.sub(partial(_entry, define(plugin, names)), text)
    return text


def _entry(definition: dict[str, Any], _: re.Match[str]) -> str:
    """Return a definition as a list item of `meltano.yml`."""
    lines = write_yaml({"plugins": {"all": [definition]}}).splitlines(keepends=True)
    return "".join(lines[2:])  # without the keys around the list


if __name__ == "__main__":
    for file in FILES:
        file.write_text(render(file), "utf-8")
