"""What became of the refresh tokens of a tap.

Rules of the room: a server may replace a refresh token whenever it is used, and refuse the
old one from then on (RFC 6749, section 6; RFC 9700, section 4.14.2). All authenticators of a
tap share what is known of that, so that whoever still holds an old one sends the newest. A
new one is handed back to where the old one came from. No token is in a message.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from tap_core.authenticators.token_storage import is_refresh_token_name, write_refresh_token

__all__ = ["RefreshTokens", "apply_latest_token", "get_refresh_token", "get_refresh_tokens"]


class RefreshTokens:
    """The refresh tokens of one tap: which are used up, and which came in their place.

    ``lock`` is held from the moment at which the newest is looked up until its answer has
    been read, as a token that is used once must not be used by two.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._next: dict[str, str] = {}
        self._warned = False

    def newest(self, token: str) -> str:
        """Return what came in place of a token in the end; itself when nothing did."""
        while token in self._next:
            token = self._next[token]
        return token

    def replaced(self, used: str, token: str) -> None:
        """Remember that one token came for another."""
        self._next.pop(token, None)  # a token that comes back is good again
        self._next[used] = token

    def renewed(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings with the newest in place of refresh tokens that are used up."""
        return {name: self._renewed(name, value) for name, value in settings.items()}

    def _renewed(self, name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return self.renewed(value)
        if isinstance(value, str) and is_refresh_token_name(name):
            return self.newest(value)
        return value

    def hand_back(self, tap: Any, token: str, logger: logging.Logger) -> None:
        """Write a new token into the file that the tap was started with; else warn, once.

        Whoever started the tap and listens is told too, and keeps it.
        """
        listener = getattr(tap, "config_listener", None)
        if callable(listener):
            listener(self.renewed)
        file = getattr(tap, "config_file", None)
        if isinstance(file, (str, os.PathLike)):
            reason = write_refresh_token(Path(file), self._next, token)
        else:
            reason = "the settings do not come from one configuration file"
        if reason is None:
            logger.info("The new refresh token is kept in the configuration file %s", file)
        elif callable(listener):
            logger.info("The new refresh token is handed to whoever started the tap: %s", reason)
        elif not self._warned:
            self._warned = True
            logger.warning(
                "The server replaced the refresh token, and the new one could not be kept: %s. "
                "The next run needs the new one: log in again and set it, or start the tap "
                "with one configuration file that can be written.",
                reason,
            )


_known: WeakKeyDictionary[object, RefreshTokens] = WeakKeyDictionary()
_known_lock = threading.Lock()


def get_refresh_tokens(tap: Any, otherwise: RefreshTokens) -> RefreshTokens:
    """Return what is known for a tap; ``otherwise`` where there is none to know it by."""
    if tap is None:
        return otherwise
    with _known_lock:
        try:
            return _known.setdefault(tap, otherwise)
        except TypeError:  # an object that cannot be a key
            return otherwise


def get_refresh_token(payload: Any, name: str = "refresh_token") -> str | None:
    """Return the refresh token that a request would send, None if it sends none."""
    token = payload.get(name) if isinstance(payload, Mapping) else None
    return token if isinstance(token, str) and token else None


def apply_latest_token(payload: Any, token: str, name: str = "refresh_token") -> dict[str, Any]:
    """Return a request's body with this refresh token."""
    return {**payload, name: token}
