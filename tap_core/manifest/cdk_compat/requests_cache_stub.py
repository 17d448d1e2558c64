"""Answers under the names of the package requests_cache, by which connectors type them.

Rules of the room: an answer is always one of requests'; nothing else of that package is here.
Where requests_cache is installed, connectors get that one.
"""

from __future__ import annotations

import requests

__all__ = ["CachedResponse", "OriginalResponse", "Response"]

Response = CachedResponse = OriginalResponse = requests.Response
