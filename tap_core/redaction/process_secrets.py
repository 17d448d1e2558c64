"""Secrets of all plugins in this process, and their removal from texts.

A plugin's secrets are hidden as long as the plugin exists. Those of the most recent ones stay
hidden afterwards, since their threads may still write. Registration installs log redaction.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections import deque
from typing import Final

from tap_core.redaction.log_records import install_log_redaction
from tap_core.redaction.text import Secrets, escape_control_characters

__all__ = [
    "forget_secrets",
    "install_redaction",
    "redact",
    "redact_line",
    "redact_lines",
    "register_secrets",
    "write_to_stderr",
]

_REMEMBERED: Final = 32
"""Number of deleted plugins whose secrets are still hidden."""


class _Registry:
    """Thread-safe registry of secrets, each kept for an owner such as a plugin."""

    def __init__(self) -> None:
        # Reentrant: a finalizer may run at any allocation, also while this thread registers.
        self._lock = threading.RLock()
        self._owned: dict[int, Secrets] = {}
        self._ended: deque[Secrets] = deque(maxlen=_REMEMBERED)
        self._all: Secrets | None = Secrets()

    def add(self, owner: object, secrets: Secrets) -> None:
        """Add secrets, which are hidden as long as the object ``owner`` exists."""
        with self._lock:
            if id(owner) not in self._owned:
                weakref.finalize(owner, self._end, id(owner)).atexit = False
            previous = self._owned.get(id(owner), Secrets())
            self._owned[id(owner)] = previous | secrets
            self._all = None

    def _end(self, owner: int) -> None:
        """Move the secrets of a deleted owner to the list of recent owners, which is limited."""
        with self._lock:
            secrets = self._owned.pop(owner, Secrets())
            # An owner without secrets must not displace one that has some.
            if secrets.values:
                self._ended.append(secrets)
                self._all = None

    def clear(self) -> None:
        """Remove all secrets."""
        with self._lock:
            self._owned.clear()
            self._ended.clear()
            self._all = None

    def all(self) -> Secrets:
        """Return the secrets of all current and recent owners."""
        joined = self._all
        if joined is None:
            with self._lock:
                # A finalizer may run between the two copies: what it moves is then in both.
                owned = list(self._owned.values())
                parts = owned + list(self._ended)
                values = (value for part in parts for value in part.values)
                joined = self._all = Secrets.from_values(values)
        return joined


_registry: Final = _Registry()


def register_secrets(owner: object, secrets: Secrets) -> None:
    """Hide secrets in all output of this process as long as ``owner`` exists."""
    install_redaction()
    _registry.add(owner, secrets)


def forget_secrets() -> None:
    """Remove all registered secrets; used between tests."""
    _registry.clear()


def redact(text: str, *, by_name: bool = True) -> str:
    """Return a text without registered secrets and without values that have a secret name.

    by_name: False to hide only registered secrets, for example in lines of source code.
    """
    secrets = _registry.all()
    return secrets.hide(text) if by_name else secrets.hide_values(text)


def redact_line(text: str) -> str:
    """Return a text as one redacted line, with control characters escaped."""
    return escape_control_characters(redact(text))


def redact_lines(text: str) -> str:
    """Return a redacted text with control characters escaped, except line feeds."""
    return "\n".join(map(escape_control_characters, redact(text).split("\n")))


def install_redaction() -> None:
    """Remove secrets from all log records created from now on; repeated calls have no effect."""
    install_log_redaction(redact)


def write_to_stderr(text: str) -> None:
    """Write a text with secrets removed to standard error; do nothing if the stream is closed."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(redact_lines(text))
        sys.stderr.flush()
