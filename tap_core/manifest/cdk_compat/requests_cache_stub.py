"""Substitute for the response classes of the package requests_cache, for type hints.

All of them are `requests.Response`; the rest of the package is not provided. If requests_cache is
installed, connectors get the real package.
"""

from __future__ import annotations

import requests

__all__ = ["CachedResponse", "OriginalResponse", "Response"]

Response = CachedResponse = OriginalResponse = requests.Response
