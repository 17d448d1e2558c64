"""Settings that protect Spark's data blocks, web UI and event log from unauthorized users.

With a local master, clients must authenticate with a random secret that is generated per run. A
cluster's protection must be configured on the cluster, so for a cluster this module only reports
missing settings. Source: Spark documentation, "Spark Security".
"""

from __future__ import annotations

import ipaddress
import logging
import os
import secrets
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from tap_core.redaction import SECRET_NAME_PATTERN, SPARK_REDACTION_REGEX

__all__ = [
    "find_weaknesses",
    "find_weaknesses_of_remote",
    "loopback_environment",
    "protective_conf",
    "runs_on_this_machine",
    "warn_if_open",
]

logger = logging.getLogger(__name__)

_AUTHENTICATE: Final = "spark.authenticate"
_SECRET: Final = "spark.authenticate.secret"  # noqa: S105  (a setting's name)
_LOCAL_IP: Final = "SPARK_LOCAL_IP"
_LOOPBACK: Final = "127.0.0.1"

_LOCAL_MASTERS: Final = ("local", "spark://127.", "spark://localhost:")
"""Prefixes of the Spark master URLs that run all executors on this machine."""

_LOGIN: Final = r"://[^/\s:@]*:[^/\s@]+@"
_SETTING_WITH_SECRET: Final = rf"{_LOGIN}|jdbc:\S*@|[?&;]sig=|\bbearer\s|[.]headers?[.]"
_SECRET_IN_TEXT: Final = (
    rf"{_LOGIN}|\b(?:password|passwd|pwd|secret|token|sig|signature|api_?key|access_?key)"
    r"=[^\s;&,'\")\]}]+"
)

_REDACTION: Final = {
    "spark.redaction.regex": f"{SPARK_REDACTION_REGEX}|(?i:{_SETTING_WITH_SECRET})",
    "spark.redaction.string.regex": f"(?i){_SECRET_IN_TEXT}",
}
"""Spark settings with regular expressions for secrets, which Spark hides in its UI, event log and
plans. The first matches names or values of settings; the second matches parts of any text."""

_UNPROTECTED_LOCAL: Final = (
    "spark.authenticate is false: every user of this machine can read rows, keys and tokens out"
    " of the running Spark. Remove spark.authenticate from the setting spark."
)


def runs_on_this_machine(master: str) -> bool:
    """Return True if Spark runs all executors on this machine, as with the master ``local[*]``."""
    return master.startswith(_LOCAL_MASTERS)


def protective_conf(master: str) -> dict[str, str]:
    """Return default Spark settings that protect rows and secrets from other users.

    The settings redact secrets in Spark's UI and logs. For a local master they also enable
    authentication with a random secret.
    """
    conf = dict(_REDACTION)
    if master.startswith("local"):  # also local-cluster[…], for which Spark generates no secret
        conf |= {_AUTHENTICATE: "true", _SECRET: secrets.token_hex(32)}
    return conf


def loopback_environment(master: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return environment variables that make Spark's web UI listen on loopback only.

    No ``spark.*`` setting does this. The result is empty if executors run on other machines, or if
    the variable ``SPARK_LOCAL_IP`` is set already.

    Args:
        master: Spark's master URL.
        environ: The environment variables to check; None for those of this process.
    """
    variables = os.environ if environ is None else environ
    if variables.get(_LOCAL_IP) or not runs_on_this_machine(master):
        return {}
    return {_LOCAL_IP: _LOOPBACK}


def warn_if_open(master: str, conf: Mapping[str, str]) -> None:
    """Log a warning if ``master`` is local, and clients need no secret (``spark.authenticate``).

    ``conf`` are the Spark settings.
    """
    if master.startswith("local") and not _is_on(conf, _AUTHENTICATE):
        logger.warning(_UNPROTECTED_LOCAL)


def find_weaknesses(master: str, conf: Mapping[str, str]) -> Iterator[str]:
    """Yield warnings about Spark settings that expose data or secrets, or let others run code.

    Each warning also states the remedy.

    Args:
        master: Spark's master URL.
        conf: The Spark settings in effect, or before Spark has started, the configured ones.
    """
    if master.startswith("local"):
        if not _is_on(conf, _AUTHENTICATE, default=True):  # the default of `protective_conf`
            yield _UNPROTECTED_LOCAL
    else:
        yield from _find_network_weaknesses(master, conf)
    yield from _find_weaknesses_of_ui_and_event_log(conf)
    yield from _find_secrets_in_java_options(conf)


def _find_network_weaknesses(master: str, conf: Mapping[str, str]) -> Iterator[str]:
    if not _is_on(conf, _AUTHENTICATE):
        yield (
            "anyone who reaches the ports of driver and executors can read rows and secrets there,"
            " and run code: set spark.authenticate to true, on the cluster's side as well"
        )
    elif master.startswith("spark://") and not conf.get(_SECRET):
        yield (
            "spark.authenticate is on without a secret: set spark.authenticate.secret to that of"
            " the master and its workers"
        )
    if not (_is_on(conf, "spark.network.crypto.enabled") or _is_on(conf, "spark.ssl.rpc.enabled")):
        yield (
            "rows and secrets go over the network unencrypted: set spark.network.crypto.enabled to"
            " true (with spark.authenticate), or spark.ssl.rpc.enabled"
        )


def _find_weaknesses_of_ui_and_event_log(conf: Mapping[str, str]) -> Iterator[str]:
    has_login = conf.get("spark.ui.filters") and _is_on(conf, "spark.acls.enable")
    if _is_on(conf, "spark.ui.enabled") and not has_login:
        yield (
            "Spark's web UI (spark.ui.enabled) shows queries and paths to anyone who reaches it"
            " and lets them end jobs: set it to false, or set spark.ui.filters and"
            " spark.acls.enable"
        )
    if _is_on(conf, "spark.eventLog.enabled"):
        folder = conf.get("spark.eventLog.dir") or "file:/tmp/spark-events"
        yield (
            f"the event log in {folder} (spark.eventLog.enabled) contains queries and paths: let"
            " only authorized users read that folder"
        )


def _find_secrets_in_java_options(conf: Mapping[str, str]) -> Iterator[str]:
    for key in ("spark.executor.extraJavaOptions", "spark.executor.defaultJavaOptions"):
        if SECRET_NAME_PATTERN.search(conf.get(key) or ""):
            yield (
                f"{key} seems to contain a secret, and is visible on the command lines of"
                " executors: put the secret into a file on the workers"
            )


def find_weaknesses_of_remote(remote: str) -> Iterator[str]:
    """Yield a warning if Spark Connect sends data to another host without encryption.

    ``remote`` is the connection string, such as ``sc://host:15002/;use_ssl=true``.
    """
    address = urlsplit(remote)
    parts = (part.partition("=") for part in address.path.lstrip("/").split(";") if part)
    parameters = {name: value for name, _, value in parts}
    has_tls = parameters.get("use_ssl", "").lower() == "true" or "token" in parameters
    host = (address.hostname or "").rstrip(".")
    if not has_tls and not _is_loopback(host):
        yield (
            f"rows and queries go to {host} unencrypted, and neither side is authenticated:"
            " add use_ssl=true to the setting remote"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_on(conf: Mapping[str, str], key: str, *, default: bool = False) -> bool:
    return conf.get(key, str(default)).strip().lower() == "true"
