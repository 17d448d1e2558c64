"""Settings from files: merging, and errors with file name and position."""

from __future__ import annotations

import gzip
from decimal import Decimal

import pytest

from tap_core import Tap
from tap_core.config.loading import ConfigInput, read_config_files
from tap_core.exceptions import ConfigFileError, ConfigValidationError


class Nested(Tap):
    name = "tap-nested"
    config_jsonschema = {"properties": {"folder": {"type": "object"}}}

    def discover_streams(self):
        return []


@pytest.fixture
def write(tmp_path):
    def _write(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return _write


def test_later_files_override_earlier_ones(write):
    first = write("a.json", '{"x": 1, "deep": {"a": 1, "b": 2}}')
    second = write("b.json", '{"deep": {"a": 3}, "y": 2}')
    assert read_config_files([first, second]) == {"x": 1, "deep": {"a": 3}, "y": 2}


def test_config_argument_env_enables_environment_variables(write):
    path = write("a.json", '{"x": 1}')
    assert ConfigInput.from_cli_args(path, "ENV") == ConfigInput({"x": 1}, parse_env=True)
    assert ConfigInput.from_cli_args(path) == ConfigInput({"x": 1}, parse_env=False)
    assert ConfigInput.from_cli_args() == ConfigInput({}, parse_env=False)


def test_fractions_and_large_integers_keep_their_digits(write):
    config = read_config_files([write("a.json", '{"a": 0.10, "b": 12345678901234567890123}')])
    assert config == {"a": Decimal("0.10"), "b": 12345678901234567890123}
    assert str(config["a"]) == "0.10"


def test_byte_order_mark_is_ignored(write):
    assert read_config_files([write("a.json", b'\xef\xbb\xbf{"x": 1}')]) == {"x": 1}


@pytest.mark.parametrize(
    "content, sentence",
    [
        ('{"x": 1,\n "y": oops}', "is not JSON: Expecting value (line 2, column 7)"),
        ("", "is not JSON: it is empty"),
        (b"\xef\xbb\xbf \n", "is not JSON: it is empty"),
        ("[1]", "holds an array where a JSON object is needed"),
        ("3", "holds a number where a JSON object is needed"),
        ("null", "holds null where a JSON object is needed"),
        (b'"\xff"', "is not UTF-8 text"),
        (b"\xff\xfe{\0}\0", "is not UTF-8 text, but UTF-16: convert it to UTF-8"),
        (gzip.compress(b"{}"), "is not UTF-8 text, but compressed with gzip: decompress it"),
    ],
)
def test_invalid_configuration_file_is_named_with_its_fault(write, content, sentence):
    path = write("bad.json", content)
    with pytest.raises(ConfigFileError) as caught:
        read_config_files([path])
    assert caught.value.errors == [f"Configuration file '{path}' {sentence}"]


def test_empty_path_is_an_error_that_says_so():
    """As in ``--config "$FILE"`` if the variable is not set."""
    with pytest.raises(ConfigFileError, match=r"^The path of a configuration file is empty"):
        read_config_files([""])


@pytest.mark.parametrize("length", [1, 5_000])
def test_json_instead_of_a_path_is_an_error_that_does_not_show_it(length):
    """SEC5: as in ``--config "$SETTINGS"`` if the variable has the settings themselves."""
    with pytest.raises(ConfigFileError) as caught:
        read_config_files([' {"url": "https://u:Sup3rSecret@h", "pw": "Sup3rSecret"}' * length])
    assert str(caught.value).startswith("--config has JSON")
    assert "Sup3rSecret" not in str(caught.value)


def test_all_invalid_files_are_reported_together(write, tmp_path):
    bad = write("bad.json", "{")
    missing = str(tmp_path / "missing.json")
    with pytest.raises(ConfigValidationError) as caught:
        read_config_files([bad, missing, str(tmp_path)])
    first, second, third = caught.value.errors
    assert "bad.json" in first
    assert second == f"Configuration file '{missing}' does not exist"
    assert "cannot be read" in third


@pytest.mark.parametrize("source", ["file", "environment"])
@pytest.mark.parametrize("levels", [99, 700])
def test_settings_of_more_than_100_levels_are_an_error(source, levels, write, monkeypatch):
    text = '{"a": ' * levels + "[]" + "}" * levels
    if source == "file":
        config = ConfigInput.from_cli_args(write("config.json", f'{{"folder": {text}}}')).config
    else:
        config = {}
        monkeypatch.setenv("TAP_NESTED_FOLDER", text)
    with pytest.raises(ConfigValidationError, match=r"^folder: .* at most 100 levels") as caught:
        Nested(config=config, parse_env_config=source == "environment")
    assert len(caught.value.errors) == 1


def test_settings_of_100_levels_are_accepted(write):
    text = '{"a": ' * 98 + "[]" + "}" * 98
    path = write("config.json", f'{{"folder": {text}}}')
    assert Nested(config=ConfigInput.from_cli_args(path).config).config["folder"]
