"""One module makes all validators of jsonschema, whose default registry fetches references."""

from __future__ import annotations

import re
from pathlib import Path

from tests.code_rules.source_files import ROOT

HOME = "tap_core/schema/validators.py"
MAKES = re.compile(
    r"\bDraft\d+Validator\s*\(|\bvalidator_for\b|\bRefResolver\b|\bjsonschema\.validate\b"
    r"|\bDraft\d+Validator\.check_schema|import validate\b|\bretrieve_from\b"
    r"|^\s*(?:from jsonschema\b.*|import jsonschema\b.*)",
    re.MULTILINE,
)
ALLOWED = re.compile(
    r"\s*from jsonschema import (?:(?:ValidationError|SchemaError|FormatChecker)(?:, )?)+$"
)
EXTENDS = {
    "tap_core/sinks/validation.py": "from jsonschema import Draft202012Validator, FormatChecker",
    "tap_core/typing/validators.py": "from jsonschema import validators",
}
"""Allowed imports by file: for annotations, or for a subclass of a validator made in `HOME`."""


def find_validator_uses(path: Path) -> list[str]:
    name = path.relative_to(ROOT).as_posix()
    uses = [use[0].strip() for use in MAKES.finditer(path.read_text(encoding="utf-8"))]
    return [f"{name}: {use}" for use in uses if not ALLOWED.match(use) and use != EXTENDS.get(name)]


def test_validators_are_made_in_one_place() -> None:
    """SEC11: `tap_core.schema.validators` makes all validators; they fetch no references."""
    files = [*ROOT.glob("tap_core/**/*.py"), *ROOT.glob("target_spark/**/*.py")]
    wrong = [use for file in files if file != ROOT / HOME for use in find_validator_uses(file)]
    assert wrong == [], "use get_validator_class() of tap_core.schema.validators"


def test_uses_in_the_allowed_module_are_found() -> None:
    sample = ROOT / HOME
    assert any("jsonschema" in use for use in find_validator_uses(sample))


def test_a_reference_reader_fetches_only_through_its_caller() -> None:
    """Only this module makes registries that fetch documents, those that a tap's author names."""
    uses = [
        file.relative_to(ROOT).as_posix()
        for file in ROOT.glob("tap_core/**/*.py")
        if re.search(
            r"\bretrieve\s*=\s*lambda\b|Registry\(retrieve|make\(retrieve", file.read_text()
        )
    ]
    assert uses == ["tap_core/schema/references.py"]
