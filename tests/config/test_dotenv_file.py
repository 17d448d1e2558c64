"""Settings from a ``.env`` file: the file's location, permissions and variables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tap_core.config.dotenv_file import MAX_BYTES, read_dotenv
from tap_core.config.loading import ConfigInput, parse_environment_config
from tap_core.exceptions import ConfigFileError

PREFIX = "TAP_X_"
SCHEMA = {"properties": {"a": {"type": "string"}}}
OTHER_USER = 65534
SKIPPED = "are not used, because it"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory; no folder above it has a project marker such as `.git`."""
    working_folder = tmp_path / "project" / "inner" / "here"
    working_folder.mkdir(parents=True)
    monkeypatch.chdir(working_folder)
    return working_folder


def write(path: Path, text: str = "TAP_X_A=1\n", mode: int = 0o644) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def test_only_variables_with_the_prefix_are_read_and_the_environment_is_unchanged(
    folder: Path,
) -> None:
    """SEC4: variables of a .env file without the plugin's prefix are ignored."""
    other_names = ("JAVA_HOME", "PYSPARK_PYTHON", "PATH", "HTTPS_PROXY", "REQUESTS_CA_BUNDLE")
    other_names += ("SINGER_SDK_LOG_CONFIG", "LD_PRELOAD", "TAP_XY_A", "tap_x_a", "LOGLEVEL")
    write(folder / ".env", "TAP_X_A=1\n" + "".join(f"{name}=/evil\n" for name in other_names))
    before = dict(os.environ)
    assert read_dotenv(PREFIX) == {"TAP_X_A": "1"}
    assert parse_environment_config(SCHEMA, PREFIX) == {"a": "1"}
    assert dict(os.environ) == before
    code = "import os; print('TAP_X_A' in os.environ)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout == "False\n"


def test_removed_working_directory_has_no_dotenv_file(folder: Path) -> None:
    folder.rmdir()
    assert read_dotenv(PREFIX) == {}


def test_removed_working_directory_has_no_relative_configuration_file(folder: Path) -> None:
    folder.rmdir()
    with pytest.raises(ConfigFileError, match=r"'a\.json' does not exist"):
        ConfigInput.from_cli_args("a.json")


def test_warning_about_a_file_that_is_not_utf8_has_no_advice_about_permissions(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / ".env").write_bytes("TAP_X_A=1".encode("utf-16"))
    assert read_dotenv(PREFIX) == {}
    assert "because it is not UTF-8 text. Correct it, or set the variables" in caplog.text


def test_environment_variables_override_and_expand_dotenv_values(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with load_dotenv, also in values that refer to other variables."""
    write(folder / ".env", "TAP_X_A=file\nHOST=of-file\nTAP_X_B=http://${HOST}/${PART}\nTAP_X_C\n")
    monkeypatch.setenv("HOST", "of-environment")
    monkeypatch.setenv("TAP_X_A", "environment")
    assert read_dotenv(PREFIX) == {"TAP_X_A": "file", "TAP_X_B": "http://of-environment/"}
    assert parse_environment_config(SCHEMA, PREFIX) == {"a": "environment"}


def test_invalid_line_of_a_dotenv_file_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its text is not shown, because it may be a secret."""
    file = tmp_path / ".env"
    write(file, "# comment\nTAP_X_A=1\nexport s3cret value\n\nTAP_X_B='open\nTAP_X_C=2\n")
    assert read_dotenv(PREFIX, file)["TAP_X_A"] == "1"
    assert [record.getMessage() for record in caplog.records] == [
        f"{file}, line {number}: this is not NAME=value and is skipped." for number in (3, 5)
    ]


@pytest.mark.parametrize("mark", [".git", "meltano.yml"])
def test_dotenv_is_searched_only_in_working_directory_and_project_root(
    folder: Path, mark: str
) -> None:
    """SEC4: only the working directory and the project's root are searched for .env."""
    root = folder.parent.parent
    write(root.parent / ".env", "TAP_X_A=beyond\n")
    write(root / ".env", "TAP_X_A=root\n")
    write(folder.parent / ".env", "TAP_X_A=between\n")
    assert read_dotenv(PREFIX) == {}
    write(root / mark)
    assert read_dotenv(PREFIX) == {"TAP_X_A": "root"}
    write(folder / ".env", "TAP_X_A=here\n")
    assert read_dotenv(PREFIX) == {"TAP_X_A": "here"}
    (folder / ".env").unlink()
    (folder / mark).mkdir()
    assert read_dotenv(PREFIX) == {}


@as_root
def test_dotenv_file_of_another_user_is_skipped_with_a_warning(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC4: a .env file of another user is skipped, also where its path was given."""
    root = folder.parent.parent
    write(root / "meltano.yml")
    write(root / ".env", "TAP_X_A=root\n")
    planted = write(folder / ".env", "TAP_X_A=planted\n")
    os.chown(planted, OTHER_USER, OTHER_USER)
    assert read_dotenv(PREFIX) == {"TAP_X_A": "root"}
    assert read_dotenv(PREFIX, planted) == {}
    assert caplog.text.count(f"{planted} {SKIPPED} belongs to another user") == 2


@pytest.mark.parametrize(
    "mode,warning",
    [(0o664, "may be written by its group"), (0o646, "may be written by every user")],
)
def test_dotenv_file_writable_by_others_is_skipped_with_a_warning(
    folder: Path, caplog: pytest.LogCaptureFixture, mode: int, warning: str
) -> None:
    """SEC4: a .env file that others may write is skipped, also behind a link."""
    file = write(folder / "settings", mode=mode)
    (folder / ".env").symlink_to(file)
    assert read_dotenv(PREFIX) == {}
    assert warning in caplog.text
    file.chmod(0o644)
    assert read_dotenv(PREFIX) == {"TAP_X_A": "1"}


@as_root
def test_symlink_of_another_user_is_not_followed(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another user must not choose which of this user's files is read."""
    write(folder.parent / "mine")
    (folder / ".env").symlink_to(folder.parent / "mine")
    os.chown(folder / ".env", OTHER_USER, OTHER_USER, follow_symlinks=False)
    assert read_dotenv(PREFIX) == {}
    assert "is a link that belongs to another user" in caplog.text


@pytest.mark.parametrize("kind", ["fifo", "loop", "device", "large", "binary"])
def test_dotenv_that_is_not_a_short_text_file_is_skipped_with_a_warning(
    folder: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """Reading does not block: a FIFO without a writer is skipped immediately."""
    file = folder / ".env"
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "loop":
        file.symlink_to(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    elif kind == "large":
        write(file, "TAP_X_A=1\n" + "#" * MAX_BYTES)
    else:
        file.write_bytes(b"TAP_X_A=\xff\xfe\n")
    assert read_dotenv(PREFIX) == {}
    assert SKIPPED in caplog.text


def test_dotenv_folder_and_missing_file_are_ignored(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Folders of virtual environments are often named `.env`."""
    (folder / ".env").mkdir()
    assert read_dotenv(PREFIX) == {}
    assert read_dotenv(PREFIX, folder / "absent") == {}
    assert caplog.text == ""
