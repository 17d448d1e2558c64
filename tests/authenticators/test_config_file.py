"""A new refresh token is written into the config file; the rest of the file does not change."""

from __future__ import annotations

import json
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.authenticators.token_storage import (
    is_refresh_token_name,
    replace_token,
    write_refresh_token,
)
from tap_core.io.private_files import replace_file

USED = {"old", 'o"l\\d'}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"refresh_token": "old"}')
    return path


@pytest.mark.parametrize(
    "name, is_one",
    [
        ("refresh_token", True),
        ("refreshToken", True),
        ("oauth-refresh-token", True),
        ("access_token", False),
        ("token", False),
        ("refresh", False),
    ],
)
def test_setting_name_counts_as_refresh_token(name, is_one):
    assert is_refresh_token_name(name) is is_one


@pytest.mark.parametrize(
    "before, after",
    [
        ('{ "refresh_token" :\t"old" }', '{ "refresh_token" :\t"new" }'),
        ('\ufeff{"refresh_token":"old"}\r\n', '\ufeff{"refresh_token":"new"}\r\n'),
        (r'{"refresh_token": "o\"l\\d"}', '{"refresh_token": "new"}'),
        (r'{"refresh\u005ftoken": "\u006fld"}', r'{"refresh\u005ftoken": "new"}'),
        ('{"a": {"refreshToken": "old"}}', '{"a": {"refreshToken": "new"}}'),
        ('{"refresh_token": "older"}', None),
        ('{"other": "old", "list": ["refresh_token", "old"]}', None),
        ('{"refresh_token": ["old"]}', None),
        (r'{"a": "\"refresh_token\": \"old\""}', None),
        ("[1.10, 1e5, 12345678901234567890]", None),
    ],
)
def test_only_the_refresh_token_is_replaced(before, after):
    assert replace_token(before, USED, "new") == (after or before)


NAMES = st.sampled_from(["refresh_token", "refreshToken", "a"]) | st.text(max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(sorted(USED)) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
)


def expected(value, name=""):
    if isinstance(value, dict):
        return {key: expected(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [expected(item) for item in value]
    is_used = isinstance(value, str) and value in USED
    return 'n"ew' if is_used and is_refresh_token_name(name) else value


@given(st.dictionaries(NAMES, VALUES), st.sampled_from([None, 2]), st.booleans())
def test_other_values_of_any_document_are_not_changed(document, indent, ascii_only):
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    assert json.loads(replace_token(text, USED, 'n"ew')) == expected(document)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_file_permissions_are_kept(file, mode):
    file.chmod(mode)
    assert write_refresh_token(file, USED, "new") is None
    assert file.read_text() == '{"refresh_token": "new"}'
    assert stat.S_IMODE(file.stat().st_mode) == mode
    assert list(file.parent.iterdir()) == [file]


def test_symbolic_link_is_kept(file, tmp_path):
    link = tmp_path / "link.json"
    link.symlink_to(file)
    assert write_refresh_token(link, USED, "new") is None
    assert link.is_symlink()
    assert json.loads(file.read_text()) == {"refresh_token": "new"}


def test_file_is_replaced_atomically(file, monkeypatch):
    contents = []
    real = os.fsync

    def look(handle):
        contents.append(file.read_text())
        real(handle)

    monkeypatch.setattr(os, "fsync", look)
    assert write_refresh_token(file, USED, "new") is None
    assert contents == ['{"refresh_token": "old"}', '{"refresh_token": "new"}']


def test_link_in_place_of_the_temporary_file_is_not_followed(file, tmp_path, monkeypatch):
    """SEC18: another user who may write to the folder cannot open up a file of this user."""
    private = tmp_path / "private"
    private.write_text("key")
    private.chmod(0o600)
    file.chmod(0o644)
    real = os.fsync

    def put_link(handle):
        real(handle)
        monkeypatch.setattr(os, "fsync", real)
        [temporary] = tmp_path.glob(".config.json.*")
        temporary.unlink()
        temporary.symlink_to(private)

    monkeypatch.setattr(os, "fsync", put_link)
    write_refresh_token(file, USED, "new")
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert private.read_text() == "key"


def test_modes_of_new_files_are_set_through_their_descriptors(tmp_path, monkeypatch):
    """SEC18: between the write and the mode, another user could put a link in its place."""
    monkeypatch.setattr(os, "chmod", lambda *_, **__: pytest.fail("by name"))
    replace_file(tmp_path / "run", "#!/bin/sh", mode=0o755)
    replace_file(tmp_path / "report", "{}")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("run", "report")]
    assert modes == [0o755, 0o600]


def test_pipe_or_link_to_an_open_file_is_not_replaced(tmp_path):
    """Root may replace /dev/null and /dev/stderr, which other programs then lack."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "stderr").symlink_to("/proc/self/fd/2")
    for name in ("pipe", "stderr"):
        with pytest.raises(OSError, match="it is not a regular file"):
            replace_file(tmp_path / name, "{}")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert (tmp_path / "stderr").is_symlink()
    (tmp_path / "link").symlink_to(tmp_path / "missing")
    replace_file(tmp_path / "link", "{}")
    assert (tmp_path / "link").read_text() == "{}"


def test_full_disk_leaves_the_file_unchanged(file, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    reason = write_refresh_token(file, USED, "new")
    assert reason == f"the configuration file {file} cannot be written: No space left on device"
    assert file.read_text() == '{"refresh_token": "old"}'
    assert list(file.parent.iterdir()) == [file]


def test_failed_fsync_of_the_folder_is_not_an_error(file, monkeypatch):
    real = os.open

    def refuse(path, flags, *args, **kwargs):
        if flags == os.O_RDONLY:
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", refuse)
    assert write_refresh_token(file, USED, "new") is None
    assert file.read_text() == '{"refresh_token": "new"}'


def test_read_only_file_is_not_written(file, monkeypatch):
    file.chmod(0o400)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # the superuser may all
    assert write_refresh_token(file, USED, "new") == f"the configuration file {file} is read-only"
    assert file.read_text() == '{"refresh_token": "old"}'


def test_path_that_is_not_a_regular_file_is_not_written(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert write_refresh_token(pipe, USED, "new") == (
        f"the configuration file {pipe} is not a regular file"
    )


@pytest.mark.parametrize("content", [b"\xff\xfe", b'{"refresh\ntoken": "old"}'])
def test_file_that_is_no_longer_json_is_not_written(file, content):
    file.write_bytes(content)
    assert write_refresh_token(file, USED, "new") == (
        f"the configuration file {file} is no longer JSON text in UTF-8"
    )
    assert file.read_bytes() == content


def test_config_copy_of_meltano_is_written_and_reported(tmp_path):
    file = tmp_path / ".meltano" / "run" / "tap-x" / "tap.config.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"refresh_token": "old"}')
    reason = write_refresh_token(file, USED, "new") or ""
    assert reason.endswith("is a copy that Meltano makes for each run")
    assert json.loads(file.read_text()) == {"refresh_token": "new"}
