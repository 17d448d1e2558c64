"""Run uv with the package indexes that pip is configured to use.

    python scripts/run_uv.py pip install ...

uv installs the same archives as pip and checks the same hashes in a quarter of the time, but it
does not read pip's configuration. This script passes it on in environment variables, unless they
are set already: https://docs.astral.sh/uv/reference/environment/. Without `--python`, uv installs
into the environment of the interpreter that runs this script.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping

__all__ = ["read_pip_config", "uv_environment"]

_VARIABLES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "proxy": "ALL_PROXY",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
}
"""Name of a pip setting -> the variable with which uv reads the same value."""

_SECTIONS = ("global", "install", ":env:")
"""Sections of pip's configuration that apply to `pip install`; later ones override earlier ones."""


def read_pip_config(lines: Iterable[str]) -> dict[str, str]:
    """Return the settings that apply to `pip install`, as a map of name -> value.

    Args:
        lines: The output of `pip config list`, such as ``global.index-url='https://...'``.
    """
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in lines:
        key, _, value = line.partition("=")
        section, _, name = key.partition(".")
        if section in found:
            found[section][name] = ast.literal_eval(value)
    return {name: value for section in _SECTIONS for name, value in found[section].items()}


def uv_environment(settings: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return ``environment`` with the variables with which uv uses the settings of pip.

    Args:
        settings: Settings of pip, name -> value.
        environment: The environment variables of this process.
    """
    passed = {
        "UV_COMPILE_BYTECODE": "1",  # as pip does
        "UV_INDEX_STRATEGY": "unsafe-best-match",  # as pip: the best version of all indexes
    }
    for name, value in settings.items():
        if variable := _VARIABLES.get(name):
            separator = "," if name == "find-links" else " "
            passed[variable] = separator.join(value.split())
    return passed | environment | {"VIRTUAL_ENV": sys.prefix}


def main(arguments: list[str]) -> int:
    """Run uv with ``arguments``, and return its exit code."""
    from uv import find_uv_bin  # not at the top: tests import this module without uv

    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    listed = subprocess.run(pip, capture_output=True, text=True, check=True).stdout
    environment = uv_environment(read_pip_config(listed.splitlines()), os.environ)
    return subprocess.run([find_uv_bin(), *arguments], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
