"""Check of the URLs in a BATCH message: a target opens only URLs that are allowed.

A BATCH message is not trusted, because it could make the target connect to any host. Allowed are
local files, URLs of object stores (read with the target's credentials), and hosts that the target's
settings name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, Final
from urllib.parse import urlsplit

from tap_core.batch.storage import to_local_path

__all__ = ["SCHEMES", "SCHEMES_SETTING", "check_url", "get_allowed_schemes"]

_AZURE: Final = frozenset({"abfs", "abfss", "adl", "az", "wasb", "wasbs"})
SCHEMES: Final = _AZURE | {"gcs", "gs", "memory", "oci", "s3", "s3a", "s3n"}
"""Schemes of object stores, whose URLs contain a bucket or container, not a host."""

SCHEMES_SETTING: Final = "batch_schemes"

_ALWAYS_WITH_HOST: Final = frozenset({"adl", "wasb", "wasbs"})
"""Azure's URL schemes whose URLs always contain a host, with or without a container.

For a URL without a container, Hadoop reads the container ``$root``. A URL of ``adl`` has no
container; Hadoop sends its access token to the host.
"""

_AZURE_HOST: Final = re.compile(
    r"[\w-]+(\.[\w-]+)*\.(core\.(windows\.net|chinacloudapi\.cn|usgovcloudapi\.net|cloudapi\.de)"
    r"|fabric\.microsoft\.com|azuredatalakestore\.net)(:443)?",
    re.IGNORECASE,
)


def get_allowed_schemes(config: Any) -> frozenset[str]:
    """Return the URL schemes from which a target may read batch files.

    The result contains the schemes of object stores, and the schemes in the setting
    ``batch_schemes``.
    """
    configured: Iterable[Any] = config.get(SCHEMES_SETTING) or ()
    return SCHEMES | {str(scheme).lower().removesuffix("://") for scheme in configured}


def check_url(address: str, schemes: Collection[str] = SCHEMES, roots: Iterable[str] = ()) -> None:
    """Check that a target may open the URL of a file in a BATCH message.

    Args:
        address: The URL or path of the file.
        schemes: Allowed URL schemes, such as ``s3``.
        roots: URLs from the target's settings; any URL with the same host or bucket is allowed.

    Raises:
        ValueError: The URL is not allowed.
    """
    if to_local_path(address) is not None:
        return
    scheme = address.partition("://")[0].lower()
    if "::" in address:
        raise ValueError("its address contains another address ('::'), which is not allowed")
    if _get_origin(address) in {_get_origin(root) for root in roots if "://" in root}:
        return
    if scheme not in schemes:
        allowed = ", ".join(sorted({"file", *schemes}))
        raise ValueError(
            f"its address begins with '{scheme[:20]}://', but only {allowed} are allowed; the"
            f" setting {SCHEMES_SETTING} allows more"
        )
    _container, at, host = address.partition("://")[2].partition("/")[0].rpartition("@")
    has_host = bool(at) or scheme in _ALWAYS_WITH_HOST
    if scheme in _AZURE and has_host and not _AZURE_HOST.fullmatch(host):
        raise ValueError("its address names a host that is not one of Azure's storages")


def _get_origin(address: str) -> tuple[str, str]:
    """Return the scheme and the host (or bucket) of a URL; ``s3a`` and ``s3n`` become ``s3``."""
    parts = urlsplit(address)
    scheme = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}.get(parts.scheme, parts.scheme)
    return scheme, parts.netloc
