"""Files that a user names are read up to a limit, whatever they are."""

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
from tap_core.protocols.airbyte.cli_args import read_text
from tap_core.protocols.singer import cli
from tap_core.schema.loading import parse_document
from tap_core.singerlib.json import UnreadableJSONError, load_json, read_json_file
from tap_core.state.reader import read_state

ENDLESS = Path("/dev/zero")


def test_a_file_of_settings_that_does_not_end_is_an_error():
    with pytest.raises(ConfigFileError, match=r"'/dev/zero' cannot be read: it is longer than 64"):
        read_config_files([ENDLESS])
    with pytest.raises(ManifestError, match="it is longer than 64 MiB"):
        read_manifest(ENDLESS)


def test_a_catalog_and_a_state_have_a_greatest_length(monkeypatch):
    monkeypatch.setattr(cli, "STATE_BYTES", 1000)
    with pytest.raises(CatalogFileError, match="'/dev/zero' cannot be read: it is longer than"):
        cli._text("/dev/zero")
    monkeypatch.setattr("tap_core.protocols.airbyte.cli_args.STATE_BYTES", 1000)
    with pytest.raises(StateFileError, match="State file '/dev/zero' cannot be read"):
        read_text("/dev/zero", StateFileError, "State")
    monkeypatch.setattr("tap_core.singerlib.json.STATE_BYTES", 1000)
    with pytest.raises(InputTooLargeError):
        read_json_file("/dev/zero")


def test_settings_may_come_from_a_pipe(tmp_path):
    """As a shell's <(command) gives them."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=('{"a": 1}',))
    writer.start()
    assert read_config_files([pipe]) == {"a": 1}
    writer.join()


def test_what_is_read_is_bounded_to_the_byte(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 100)
    assert len(read_at_most(tmp_path / "a", 100)) == 100
    with pytest.raises(InputTooLargeError, match="longer than 99 bytes"):
        read_at_most(tmp_path / "a", 99)


@pytest.mark.parametrize("text", ["[" * 200_000, "9" * 100_000, "1e99999999999999999999"])
def test_json_that_python_cannot_hold_is_json_that_cannot_be_decoded(text, tmp_path):
    """One error for callers that take text of others."""
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
def test_a_literal_that_cannot_be_shown_stays_a_text(text):
    """An integer of more than 4,300 digits has no text."""
    assert parse_literal(text) == text
    assert parse_literal(text, (int,)) == text


def test_other_literals_are_read_as_before():
    assert parse_literal("0x1F") == 31
    assert parse_literal("1_000") == 1000
    assert parse_literal("9" * 4000) == int("9" * 4000)


def test_nested_literals_stay_texts_too():
    hexadecimal = "[0x" + "f" * 20_000 + "]"
    assert parse_literal(hexadecimal) == hexadecimal
