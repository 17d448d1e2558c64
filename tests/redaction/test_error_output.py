"""Errors are written by the redaction modules only, and without secrets."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tap_core import Tap
from tests.code_rules.source_files import read_modules

RAW = {
    "a traceback": re.compile(r"traceback\.(format|print)_|print_exc"),
    "standard error": re.compile(r"stderr\.write\(|print\([^\n]*(error|message)[^\n]*stderr"),
    "a pattern of secrets": re.compile(r"re\.compile\([^\n]*(passw|secret|token)", re.IGNORECASE),
}
MAY = {
    "tap_core.logging": "writes what its formatter has redacted",
}


@pytest.mark.parametrize("kind", RAW)
def test_no_module_writes_errors_without_the_redaction(kind):
    violations = [
        module.name
        for module in read_modules()
        if not module.name.startswith(("tap_core.redaction", "tap_core.testing"))
        and module.name not in MAY
        and RAW[kind].search(module.source)
    ]
    assert violations == []


class ExitingTap(Tap):
    """Tap that ends the process with a message that contains its password."""

    name = "tap-exiting"
    config_jsonschema: ClassVar[Any] = {"properties": {"password": {"type": "string"}}}

    def discover_streams(self) -> list[Any]:
        """End the process."""
        sys.exit(f"No login with {self.config['password']}.")


def test_message_of_an_exit_shows_no_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """SEC5: Python writes the argument of sys.exit to standard error."""
    (tmp_path / "config.json").write_text('{"password": "cAnary-4711"}')
    with pytest.raises(SystemExit) as ended:
        ExitingTap.cli(["--config", str(tmp_path / "config.json"), "--discover"])
    assert ended.value.code == 1
    output = capsys.readouterr().err
    assert output.endswith("No login with ***.\n")
    assert "cAnary" not in output
