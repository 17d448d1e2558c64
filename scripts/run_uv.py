"""Run uv with the settings of pip: package indexes, proxy, certificates and timeout.

    python scripts/run_uv.py pip install ...

uv installs the same archives as pip and checks the same hashes in a quarter of the time, but it
does not read pip's configuration. This script passes it on in environment variables, unless they
are set already: https://docs.astral.sh/uv/reference/environment/. Without `--python`, uv uses the
environment of the interpreter that runs this script.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["make_uv_environment", "read_pip_options"]


def read_pip_options() -> dict[str, Any]:
    """Return the options of `pip install` that pip's configuration sets: name in pip -> value.

    pip itself reads its configuration files and variables. It has no public function for that.
    """
    from pip._internal.commands import create_command  # slow, and not needed by tests

    parser = create_command("install").parser
    values: dict[str, Any] = vars(parser.get_default_values())
    return {name: value for name, value in values.items() if value != parser.defaults.get(name)}


def make_uv_environment(
    options: Mapping[str, Any], environment: Mapping[str, str]
) -> dict[str, str]:
    """Return ``environment`` with the variables with which uv uses the options of pip.

    Args:
        options: Options of `pip install`, as `read_pip_options` returns them.
        environment: The environment variables of this process.
    """
    bundle = environment.get("REQUESTS_CA_BUNDLE") or environment.get("CURL_CA_BUNDLE")  # as pip
    certificates = options.get("cert") or bundle or ""
    variables = {
        "UV_COMPILE_BYTECODE": "1",
        "UV_INDEX_STRATEGY": "unsafe-best-match",  # the best version of all indexes
        "UV_SYSTEM_CERTS": "true",
        "UV_DEFAULT_INDEX": options.get("index_url", ""),
        "UV_INDEX": " ".join(options.get("extra_index_urls", ())),
        "UV_FIND_LINKS": ",".join(options.get("find_links", ())),
        "UV_INSECURE_HOST": " ".join(options.get("trusted_hosts", ())),
        "UV_HTTP_TIMEOUT": str(math.ceil(options["timeout"])) if "timeout" in options else "",
        "UV_KEYRING_PROVIDER": options.get("keyring_provider", ""),
        "ALL_PROXY": options.get("proxy", ""),
        "SSL_CERT_DIR" if Path(certificates).is_dir() else "SSL_CERT_FILE": certificates,
        "SSL_CLIENT_CERT": options.get("client_cert", ""),
    }
    set_already = {name: value for name, value in environment.items() if value}
    passed = {name: value for name, value in variables.items() if value} | set_already
    passed.pop("UV_SYSTEM_PYTHON", None)
    return passed | {"UV_PYTHON": sys.executable}


def main(arguments: list[str]) -> int:
    """Run uv with ``arguments``, and return its exit code."""
    try:
        from uv import find_uv_bin  # only `make setup` installs it
    except ImportError:
        sys.exit(f"uv is not installed for {sys.executable}. Run make setup, then use .venv.")
    options = read_pip_options()
    command = [find_uv_bin(), *arguments]
    if options.get("no_index") and arguments[:1] == ["pip"]:
        command.insert(3, "--no-index")  # uv has no variable for it
    environment = make_uv_environment(options, os.environ)
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
