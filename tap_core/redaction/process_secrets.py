"""Registry of the secrets of all plugins in this process, and their removal from texts.

The secrets of a plugin are hidden as long as the plugin exists. The secrets of the last 32 deleted
plugins stay hidden, because their threads may still write logs. Of an authenticator, the tokens of
its last 100 token requests are hidden, fewer if they are very long.
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
    "install_redaction",
    "redact",
    "redact_line",
    "redact_lines",
    "register_secrets",
    "write_to_stderr",
]

_REMEMBERED: Final = 32
"""Number of deleted plugins whose secrets are still hidden."""

_LATEST: Final = 100
"""Number of registrations of one owner that are kept.

An API may issue a token for each request. Other threads may still use those before the latest.
"""

_MOST_CHARACTERS: Final = 1_000_000
"""Maximum length of all secrets of one owner, except for those of its latest registration.

A server chooses the length of its tokens, and their encodings take a hundred times as much.
"""


class _Registry:
    """Thread-safe registry of secret values, each added for an owner object such as a plugin."""

    def __init__(self) -> None:
        # Reentrant: a finalizer may run at any allocation, also while this thread registers.
        self._lock = threading.RLock()
        self._owned: dict[int, tuple[Secrets, ...]] = {}
        self._ended: deque[tuple[Secrets, ...]] = deque(maxlen=_REMEMBERED)
        self._all: Secrets | None = Secrets()

    def add(self, owner: object, secrets: Secrets) -> None:
        """Register secrets of the object ``owner``, so that they are hidden in messages."""
        if not secrets.values:
            return
        with self._lock:
            if id(owner) not in self._owned:
                weakref.finalize(owner, self._release_owner, id(owner)).atexit = False
            earlier = self._owned.get(id(owner), ())
            self._owned[id(owner)] = _keep_latest((*earlier, secrets))
            self._all = None

    def _release_owner(self, owner: int) -> None:
        """Keep the secrets of a deleted owner, until 32 more owners with secrets are deleted.

        The owner's finalizer calls this method. ``owner`` was the ``id()`` of the object.
        """
        with self._lock:
            if secrets := self._owned.pop(owner, None):
                self._ended.append(secrets)
                self._all = None

    def all(self) -> Secrets:
        """Return all registered secrets, of existing owners and of the last 32 deleted ones."""
        joined = self._all
        if joined is None:
            with self._lock:
                # If a finalizer runs between the two copies, the secrets it moves are in both.
                owned = list(self._owned.values())
                parts = owned + list(self._ended)
                joined = self._all = Secrets.join(secrets for part in parts for secrets in part)
        return joined


def _keep_latest(registrations: tuple[Secrets, ...]) -> tuple[Secrets, ...]:
    """Return the latest registrations of an owner that are within the limits, oldest first."""
    latest = registrations[-_LATEST:]
    length = 0
    for number, secrets in enumerate(reversed(latest)):
        length += sum(map(len, secrets.values))
        if length > _MOST_CHARACTERS and number:
            return latest[-number:]
    return latest


_registry: Final = _Registry()


def register_secrets(owner: object, secrets: Secrets) -> None:
    """Hide secrets in logs and messages of this process, at least as long as ``owner`` exists.

    Pass all secrets that the owner currently uses: if it registers secrets again and again, such as
    new tokens, those of its last 100 calls are hidden.
    """
    install_redaction()
    _registry.add(owner, secrets)


def redact(text: str, *, by_name: bool = True) -> str:
    """Replace registered secrets, and values after a secret name (``password=x``), by ``***``.

    ``by_name`` is False to hide only registered secrets, for example in lines of source code.
    """
    secrets = _registry.all()
    return secrets.hide(text) if by_name else secrets.hide_values(text)


def redact_line(text: str) -> str:
    """Redact the secrets in a text, and escape its control characters and line breaks."""
    return escape_control_characters(redact(text))


def redact_lines(text: str) -> str:
    """Redact the secrets in a text, and escape its control characters except line feeds."""
    return "\n".join(map(escape_control_characters, redact(text).split("\n")))


def install_redaction() -> None:
    """Redact registered secrets in all log records that are created from now on.

    Later calls have no effect.
    """
    install_log_redaction(redact)


def write_to_stderr(text: str) -> None:
    """Write a text to standard error, with its secrets redacted. Errors of writing are ignored."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(redact_lines(text))
        sys.stderr.flush()
