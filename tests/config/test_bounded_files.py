"""Size limits of files that a user names: settings, catalog, state, manifest."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tap_core.config.loading import read_config_files
from tap_core.exceptions import CatalogFileError, ConfigFileError, StateFileError
from tap_core.limits.memory import InputTooLargeError, read_at_most
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.literals import parse_literal
from tap_core.manifest.loader import read_manifest
from tap_core.parsing.command_line import read_input_file
from tap_core.protocols.singer import cli
from tap_core.schema.loading import parse_document
from tap_core.singerlib.json import UnreadableJSONError, load_json, read_json_file
from tap_core.state.reader import read_state

ENDLESS = Path("/dev/zero")


def test_endless_settings_file_is_rejected():
    with pytest.raises(ConfigFileError, match=r"'/dev/zero' cannot be read: it is longer than 64"):
        read_config_files([ENDLESS])
    with pytest.raises(ManifestError, match="it is longer than 64 MiB"):
        read_manifest(ENDLESS)


def test_catalog_and_state_files_have_a_size_limit(monkeypatch):
    monkeypatch.setattr("tap_core.parsing.command_line.STATE_BYTES", 1000)
    with pytest.raises(CatalogFileError, match="'/dev/zero' cannot be read: it is longer than"):
        cli.read_catalog("/dev/zero")
    with pytest.raises(StateFileError, match="State file '/dev/zero' cannot be read"):
        read_input_file("/dev/zero", StateFileError, "State")
    monkeypatch.setattr("tap_core.singerlib.json.STATE_BYTES", 1000)
    with pytest.raises(InputTooLargeError):
        read_json_file("/dev/zero")


def test_settings_are_read_from_a_pipe(tmp_path):
    """A shell passes such a pipe for `<(command)`."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=('{"a": 1}',))
    writer.start()
    assert read_config_files([pipe]) == {"a": 1}
    writer.join()


def test_read_limit_is_exact_to_the_byte(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 100)
    assert len(read_at_most(tmp_path / "a", 100)) == 100
    with pytest.raises(InputTooLargeError, match="longer than 99 bytes"):
        read_at_most(tmp_path / "a", 99)


@pytest.mark.parametrize("text", ["[" * 200_000, "9" * 100_000, "1e99999999999999999999"])
def test_json_beyond_pythons_limits_raises_a_decode_error(text, tmp_path):
    """Callers need to catch only one error class for untrusted text."""
    with pytest.raises(UnreadableJSONError):
        load_json(text)
    with pytest.raises(UnreadableJSONError):
        load_json(text.encode())
    (tmp_path / "config.json").write_text(f'{{"a": {text}}}')
    with pytest.raises(ConfigFileError, match="is not JSON: "):
        read_config_files([tmp_path / "config.json"])
    with pytest.raises(StateFileError, match="is not JSON"):
        read_state(f'{{"a": {text}}}', "state.json")
    if not text.startswith("1e"):
        with pytest.raises(ValueError, match=r"nested too deeply|too many digits"):
            parse_document(text, ".json")


@pytest.mark.parametrize(
    "text",
    ["0x" + "f" * 20_000, "9" * 20_000, "-" + "9" * 20_000, "0b" + "1" * 90_000, "[" * 20_000],
)
def test_literal_too_large_for_python_stays_a_text(text):
    """Python does not convert integers of more than 4,300 digits to text."""
    assert parse_literal(text) == text
    assert parse_literal(text, (int,)) == text


def test_ordinary_literals_are_parsed():
    assert parse_literal("0x1F") == 31
    assert parse_literal("1_000") == 1000
    assert parse_literal("9" * 4000) == int("9" * 4000)


def test_nested_literal_too_large_for_python_stays_a_text():
    hexadecimal = "[0x" + "f" * 20_000 + "]"
    assert parse_literal(hexadecimal) == hexadecimal
