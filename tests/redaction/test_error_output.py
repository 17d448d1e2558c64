"""Only the redaction modules write errors and tracebacks."""

from __future__ import annotations

import re

import pytest

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
    found = [
        module.name
        for module in read_modules()
        if not module.name.startswith(("tap_core.redaction", "tap_core.testing"))
        and module.name not in MAY
        and RAW[kind].search(module.source)
    ]
    assert found == []
