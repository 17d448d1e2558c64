"""Refresh tokens that a server replaces during a run (token rotation).

A server may replace a refresh token at each use and refuse the old one afterwards (RFC 6749,
section 6; RFC 9700, section 4.14.2). All authenticators of a tap share the new tokens, so that
each sends the latest one. A new token is also written to the config file that has the old one.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from tap_core.authenticators.token_storage import is_refresh_token_name, write_refresh_token

__all__ = ["RefreshTokens", "get_refresh_token", "get_refresh_tokens"]


class RefreshTokens:
    """Refresh tokens that a tap has used, each with its latest replacement.

    A server may accept a refresh token only once. A thread must therefore hold ``lock`` from
    reading the latest token until it has stored the new token from the response.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._latest: dict[str, str] = {}
        self._warned = False

    def get_latest(self, token: str) -> str:
        """Return the latest replacement of a refresh token; the token itself if it has none."""
        return self._latest.get(token, token)

    def record_replacement(self, used: str, token: str) -> None:
        """Record that the server replaced the refresh token ``used`` with ``token``."""
        earlier = [old for old, latest in self._latest.items() if latest == used]
        self._latest.update(dict.fromkeys((*earlier, used), token))
        self._latest.pop(token, None)  # a token that the server issues again is valid again

    def with_latest_tokens(
        self, settings: Mapping[str, Any], names: Collection[str] = ()
    ) -> dict[str, Any]:
        """Return a copy of a tap's settings in which the latest tokens replace used refresh tokens.

        Refresh tokens in nested settings (inside objects) are replaced too. ``names`` are further
        names of settings that may contain refresh tokens.
        """
        return {
            name: self._with_latest_token(name, value, names) for name, value in settings.items()
        }

    def _with_latest_token(self, name: str, value: Any, names: Collection[str]) -> Any:
        """Return the value of the setting ``name`` with outdated refresh tokens replaced."""
        if isinstance(value, Mapping):
            return self.with_latest_tokens(value, names)
        if isinstance(value, str) and (name in names or is_refresh_token_name(name)):
            return self.get_latest(value)
        return value

    def save_token(
        self, tap: Any, token: str, logger: logging.Logger, names: Collection[str] = ()
    ) -> None:
        """Write a new refresh token to the tap's config file, for the next run.

        If the tap has a ``config_listener``, also call it: the process that started the tap can
        then store the token. If neither the file nor the listener stores the token, log a warning,
        once per run. ``names`` are further names of settings that may contain refresh tokens.
        """
        listener = getattr(tap, "config_listener", None)
        if callable(listener):
            listener(partial(self.with_latest_tokens, names=names))
        file = getattr(tap, "config_file", None)
        if isinstance(file, (str, os.PathLike)):
            used = [old for old, latest in self._latest.items() if latest == token]
            reason = write_refresh_token(Path(file), used, token, names)
        else:
            reason = "the settings do not come from one configuration file"
        if reason is None:
            logger.info("The new refresh token was written to the configuration file %s", file)
        elif callable(listener):
            logger.info(
                "The new refresh token was passed to the calling process, because %s", reason
            )
        elif not self._warned:
            self._warned = True
            logger.warning(
                "The server replaced the refresh token, and the new one could not be kept: %s. "
                "The next run needs the new one: log in again and set it, or start the tap "
                "with one configuration file that can be written.",
                reason,
            )


_shared_tokens: WeakKeyDictionary[object, RefreshTokens] = WeakKeyDictionary()
_shared_tokens_lock = threading.Lock()


def get_refresh_tokens(tap: Any, default: RefreshTokens) -> RefreshTokens:
    """Return the `RefreshTokens` object that all authenticators of a tap share.

    If the tap has none yet, ``default`` becomes the shared object. Return ``default`` if ``tap`` is
    None.
    """
    if tap is None:
        return default
    with _shared_tokens_lock:
        try:
            return _shared_tokens.setdefault(tap, default)
        except TypeError:  # the tap is not hashable or cannot be weakly referenced
            return default


def get_refresh_token(payload: Any, name: str) -> str | None:
    """Return the refresh token in ``payload``, the form data of a token request, or None.

    ``name`` is the name of the form field with the token.
    """
    token = payload.get(name) if isinstance(payload, Mapping) else None
    return token if isinstance(token, str) and token else None
