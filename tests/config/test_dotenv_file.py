"""Settings from a ``.env`` file: which file is read, and what of it is used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tap_core.config.dotenv_file import MAX_BYTES, read_dotenv
from tap_core.config.loading import parse_environment_config

PREFIX = "TAP_X_"
SCHEMA = {"properties": {"a": {"type": "string"}}}
STRANGER = 65534
SKIPPED = "are not used, because it"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory; no mark of a project is above it."""
    here = tmp_path / "project" / "inner" / "here"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    return here


def write(path: Path, text: str = "TAP_X_A=1\n", mode: int = 0o644) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def test_only_variables_with_the_prefix_are_taken_and_the_environment_is_left_alone(
    folder: Path,
) -> None:
    """SEC4: variables of a .env file without the plugin's prefix are ignored."""
    others = ("JAVA_HOME", "PYSPARK_PYTHON", "PATH", "HTTPS_PROXY", "REQUESTS_CA_BUNDLE")
    others += ("SINGER_SDK_LOG_CONFIG", "LD_PRELOAD", "TAP_XY_A", "tap_x_a", "LOGLEVEL")
    write(folder / ".env", "TAP_X_A=1\n" + "".join(f"{name}=/evil\n" for name in others))
    before = dict(os.environ)
    assert read_dotenv(PREFIX) == {"TAP_X_A": "1"}
    assert parse_environment_config(SCHEMA, PREFIX) == {"a": "1"}
    assert dict(os.environ) == before
    code = "import os; print('TAP_X_A' in os.environ)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout == "False\n"


def test_the_environment_wins_and_fills_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with load_dotenv, in values that name other variables too."""
    write(folder / ".env", "TAP_X_A=file\nHOST=of-file\nTAP_X_B=http://${HOST}/${PART}\nTAP_X_C\n")
    monkeypatch.setenv("HOST", "of-environment")
    monkeypatch.setenv("TAP_X_A", "environment")
    assert read_dotenv(PREFIX) == {"TAP_X_A": "file", "TAP_X_B": "http://of-environment/"}
    assert parse_environment_config(SCHEMA, PREFIX) == {"a": "environment"}


@pytest.mark.parametrize("mark", [".git", "meltano.yml"])
def test_the_root_of_the_project_is_looked_at_and_nothing_beyond(folder: Path, mark: str) -> None:
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
def test_a_file_of_another_user_is_skipped_with_a_warning(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC4: a .env file of another user is skipped, also where its path was given."""
    root = folder.parent.parent
    write(root / "meltano.yml")
    write(root / ".env", "TAP_X_A=root\n")
    planted = write(folder / ".env", "TAP_X_A=planted\n")
    os.chown(planted, STRANGER, STRANGER)
    assert read_dotenv(PREFIX) == {"TAP_X_A": "root"}
    assert read_dotenv(PREFIX, planted) == {}
    assert caplog.text.count(f"{planted} {SKIPPED} belongs to another user") == 2


@pytest.mark.parametrize(
    "mode,words", [(0o664, "may be written by its group"), (0o646, "may be written by every user")]
)
def test_a_file_that_others_may_write_is_skipped_with_a_warning(
    folder: Path, caplog: pytest.LogCaptureFixture, mode: int, words: str
) -> None:
    """SEC4: a .env file that others may write is skipped, also behind a link."""
    file = write(folder / "settings", mode=mode)
    (folder / ".env").symlink_to(file)
    assert read_dotenv(PREFIX) == {}
    assert words in caplog.text
    file.chmod(0o644)
    assert read_dotenv(PREFIX) == {"TAP_X_A": "1"}


@as_root
def test_a_link_of_another_user_is_not_followed(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A stranger must not choose which of this user's files is read."""
    write(folder.parent / "mine")
    (folder / ".env").symlink_to(folder.parent / "mine")
    os.chown(folder / ".env", STRANGER, STRANGER, follow_symlinks=False)
    assert read_dotenv(PREFIX) == {}
    assert "is a link that belongs to another user" in caplog.text


@pytest.mark.parametrize("kind", ["fifo", "loop", "device", "large", "binary"])
def test_what_is_no_short_text_file_is_skipped_with_a_warning(
    folder: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """Reading it ends at once: a FIFO without a writer is not waited for."""
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


def test_a_folder_of_that_name_and_no_file_at_all_are_no_fault(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Python environments are often called so."""
    (folder / ".env").mkdir()
    assert read_dotenv(PREFIX) == {}
    assert read_dotenv(PREFIX, folder / "absent") == {}
    assert caplog.text == ""
