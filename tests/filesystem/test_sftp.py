"""Arguments of the SFTP file system, from the setting ``sftp``."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from tap_core.exceptions import ConfigValidationError
from tap_core.filesystem.sftp import make_sftp_options
from tap_core.filesystem.tap import _open_folder


class SSHError(Exception):
    pass


def make_key_class(name):
    """Return a class that reads keys that begin with its name, like those of paramiko."""

    class Key:
        @classmethod
        def from_private_key(cls, file):
            text = file.read()
            if not text.startswith(name):
                raise SSHError("not a valid key file")
            return (name, text)

    return Key


@pytest.fixture(autouse=True)
def _paramiko(monkeypatch):
    names = ("Ed25519Key", "ECDSAKey", "RSAKey")
    client = {name: make_key_class(name) for name in names} | {"SSHException": SSHError}
    monkeypatch.setitem(sys.modules, "paramiko", SimpleNamespace(**client))


def test_connection_settings_are_arguments_of_their_own():
    """As one argument they would reach SSHClient.connect, which has no such argument."""
    options = {"host": "h", "ssh_kwargs": {"port": 22, "username": "u", "password": "p"}}
    expected = {"host": "h", "port": 22, "username": "u", "password": "p"}
    assert make_sftp_options(options) == expected
    assert make_sftp_options({"host": "h"}) == {"host": "h"}


def test_folder_tap_passes_the_arguments(monkeypatch):
    arguments = {}
    monkeypatch.setattr(
        "fsspec.implementations.dirfs.DirFileSystem", lambda **kwargs: arguments.update(kwargs)
    )
    _open_folder("sftp", "/d", {"host": "h", "ssh_kwargs": {"port": 22}})
    assert arguments["target_options"] == {"host": "h", "port": 22}


@pytest.mark.parametrize("name", ["Ed25519Key", "ECDSAKey", "RSAKey"])
def test_private_key_is_parsed(name):
    options = {"host": "h", "ssh_kwargs": {"pkey": f"{name} text"}}
    assert make_sftp_options(options)["pkey"] == (name, f"{name} text")


def test_text_that_is_no_private_key_is_an_error_without_the_text():
    with pytest.raises(ConfigValidationError, match="pkey' is not a private key") as raised:
        make_sftp_options({"host": "h", "ssh_kwargs": {"pkey": "hunter22"}})
    assert "hunter22" not in str(raised.value)
