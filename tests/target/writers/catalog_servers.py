"""Real catalog servers on loopback: Iceberg's reference server, Hive's metastore, and `uc-server`.

Each is a process, and ends with the block that started it. Iceberg's reference server checks no
credentials, so `TokenGateway` stands before it: an HTTP server that issues OAuth2 tokens,
refuses requests without a valid one, and passes the others on. A gateway may also have the
addresses of a service whose own server cannot be installed: `UNITY_CATALOG`, `s3_tables_routes`.
"""

from __future__ import annotations

import http.client
import json
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, quote

import pytest
from typing_extensions import Self

from target_spark.spark.jar_cache import fetch, get_jar_path, ivy_folder, locked, sha256
from target_spark.spark.jvm import spark_home
from tests.cluster.s3_server import KEY

__all__ = [
    "CLIENT",
    "UNITY_CATALOG",
    "Routes",
    "SignatureGateway",
    "TokenGateway",
    "hive_metastore",
    "rest_catalog",
    "s3_tables_routes",
    "unity_catalog",
]

CLIENT: Final = ("the-client-of-tests", "the-client-secret-of-tests")

_HERE: Final = "127.0.0.1"
_START_SECONDS: Final = 120
_SQLITE: Final = "org.xerial:sqlite-jdbc:3.50.3.0"
_REST_SERVER: Final = "org.apache.iceberg:iceberg-open-api:1.10.0"
_SHA256: Final = {
    _REST_SERVER: "99379edef1a65b51c40a63971ffab46d38966821af26ef6224bd217eeacae8d7",
}
_JAVA: Final = ("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


# Servers


@contextmanager
def rest_catalog(
    folder: Path, variables: Mapping[str, str] | None = None, **properties: str
) -> Iterator[int]:
    """Context manager: run Iceberg's reference REST server, and yield its port.

    Its catalog is an SQLite database in ``folder``. ``properties`` are those of the catalog, with
    ``_`` for ``.`` and ``__`` for ``-``: ``warehouse``, ``io__impl``, ``rest_port`` …
    ``variables`` are other environment variables of the server.
    """
    port = int(properties.setdefault("rest_port", str(_free_port())))
    settings = {"uri": f"jdbc:sqlite:{folder}/catalog.db", **properties}
    jars = ":".join(map(str, (_get_jar(_REST_SERVER), _get_jar(_SQLITE))))
    command = [*_JAVA, "-cp", jars, "org.apache.iceberg.rest.RESTCatalogServer"]
    environment = {f"CATALOG_{name.upper()}": value for name, value in settings.items()}
    with _running(command, {**(variables or {}), **environment}, folder / "rest.log", port):
        yield port


@contextmanager
def hive_metastore(folder: Path) -> Iterator[int]:
    """Context manager: run Hive's metastore of Spark's own jars with Derby; yield its port."""
    port = _free_port()
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/derby;create=true",
        "hive.metastore.warehouse.dir": f"file://{folder}/hive",
        "hive.metastore.schema.verification": "false",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.async.log.enabled": "false",
    }
    conf = folder / "conf"
    conf.mkdir()
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in settings.items()
    )
    (conf / "hive-site.xml").write_text(f"<configuration>{properties}</configuration>")
    jars = f"{conf}:{_spark_home()}/jars/*"
    program = "org.apache.hadoop.hive.metastore.HiveMetaStore"
    command = [*_JAVA, "-cp", jars, program, "-p", str(port)]
    with _running(command, {}, folder / "metastore.log", port):
        yield port


@contextmanager
def unity_catalog(folder: Path) -> Iterator[str]:
    """Context manager: run the program ``uc-server`` with a catalog ``CATALOG``; yield its URL.

    This is an independent implementation of Unity Catalog, which checks no token and accepts tables
    in ``folder``. `cargo install --locked olai-uc-server --features bin` builds it.
    """
    port = _free_port()
    key = b64encode(secrets.token_bytes(32)).decode()
    config = {
        "host": _HERE,
        "port": port,
        "local_storage": {"allowed-roots": [str(folder)]},
        "encryption": {"active": {"id": "tests", "key": key}},
    }
    (folder / "unity.yaml").write_text(json.dumps(config))
    command = [
        shutil.which("uc-server") or "uc-server",
        "serve",
        "--config",
        str(folder / "unity.yaml"),
    ]
    role = {"role_arn": "arn:aws:iam::123456789012:role/none"}  # required, and not used for folders
    location = {"url": folder.as_uri(), "credential_name": "none", "skip_validation": True}
    with _running(command, {}, folder / "unity.log", port):
        for kind, body in (
            ("credentials", {"name": "none", "purpose": "STORAGE", "aws_iam_role": role}),
            ("external-locations", {"name": "folder", **location}),
            ("catalogs", {"name": "CATALOG", "storage_root": f"{folder.as_uri()}/managed"}),
        ):
            connection = http.client.HTTPConnection(_HERE, port, timeout=60)
            path = f"/api/2.1/unity-catalog/{kind}"
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert answer.status < 300, answer.read()
            connection.close()
        yield f"http://{_HERE}:{port}"


@contextmanager
def _running(
    command: list[str], environment: Mapping[str, str], log: Path, port: int
) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=log.parent,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "AWS_REGION": "us-east-1", **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_for_port(process, port, log)
        yield
    finally:
        process.kill()
        process.wait()


def _wait_for_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as client:
            if client.connect_ex((_HERE, port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail(f"The server did not start: {log.read_text()[-2000:]}")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((_HERE, 0))
        port: int = listener.getsockname()[1]
        return port


def _spark_home() -> Path:
    return spark_home("local", metadata.version("pyspark"))


def _get_jar(coordinates: str) -> Path:
    """Return the path of a jar, fetched alone, without what it depends on."""
    folder = ivy_folder(None)
    jar = get_jar_path(folder, coordinates)
    with locked(folder) as lock:
        if not jar.is_file():
            with tempfile.TemporaryDirectory() as home:
                conf = {
                    "spark.jars.packages": coordinates,
                    "spark.jars.ivy": str(folder),
                    "spark.driver.extraJavaOptions": f"-Duser.home={home}",
                }
                assert fetch(conf, _spark_home(), lock), coordinates
    if expected := _SHA256.get(coordinates):
        with jar.open("rb") as file:
            assert sha256(file) == expected, jar
    return jar


# Addresses of services


@dataclass(frozen=True)
class Routes:
    """The addresses of a service that serves Iceberg's REST protocol.

    Attributes:
        base: The path of the catalog's URL.
        token: The path of the OAuth2 token endpoint.
        prefix: The prefix of all routes but ``config``, which the answer of ``config`` tells the
            client. Empty for a service without one.
    """

    base: str = ""
    token: str = "/v1/oauth/tokens"
    prefix: str = ""

    def to_reference(self, path: str) -> str | None:
        """Return the path of a request at Iceberg's reference server, which has no prefix.

        Return None if the service has no such address.
        """
        base = f"{self.base}/v1/"
        prefix = f"{base}{self.prefix}/" if self.prefix else base
        if path.startswith(prefix):
            return f"/v1/{path.removeprefix(prefix)}"
        return f"/v1/{path.removeprefix(base)}" if path.startswith(f"{base}config") else None


UNITY_CATALOG: Final = Routes(
    "/api/2.1/unity-catalog/iceberg-rest", "/oidc/v1/token", "catalogs/CATALOG"
)
"""The addresses of Databricks' Unity Catalog, for a catalog with the name ``CATALOG``."""


def s3_tables_routes(arn: str) -> Routes:
    """Return the addresses of Amazon S3 Tables for a table bucket."""
    return Routes("/iceberg", prefix=quote(arn, safe=""))


# Gateways


class TokenGateway(ThreadingHTTPServer):
    """An OAuth2 server, and an HTTP proxy to a REST catalog that requires its tokens.

    Attributes:
        behind: The port of Iceberg's reference server.
        routes: The addresses at which the proxy serves the catalog.
        lifetime: Seconds after which a client should renew a token. The token is accepted four
            times as long, because a client on a busy machine renews late.
        issued: The number of tokens issued.
        refusals: HTTP status codes with which the next commits to tables are answered, instead of
            being passed on.
        lost_answers: HTTP status codes with which the commits after those are answered, although
            they were passed on and made.
        delegations: The values of the header ``X-Iceberg-Access-Delegation``.
    """

    def __init__(self, behind: int, lifetime: int = 3600, routes: Routes = Routes()) -> None:
        self.behind, self.lifetime, self.routes = behind, lifetime, routes
        self.issued = 0
        self.refusals: list[int] = []
        self.lost_answers: list[int] = []
        self.delegations: set[str | None] = set()
        self._valid_until: dict[str, float] = {}
        super().__init__((_HERE, 0), _Handler)

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    @property
    def url(self) -> str:
        """The URL of the catalog."""
        return f"{self.origin}{self.routes.base}"

    @property
    def token_url(self) -> str:
        """The URL of the OAuth2 token endpoint."""
        return f"{self.origin}{self.routes.token}"

    @property
    def origin(self) -> str:
        """The URL of the server without a path."""
        return f"http://{_HERE}:{self.server_address[1]}"

    def issue(self) -> str:
        """Return a new token."""
        token = secrets.token_urlsafe()
        self._valid_until[token] = time.monotonic() + 4 * self.lifetime
        self.issued += 1
        return token

    def revoke_all(self) -> None:
        """Refuse all tokens that were issued."""
        self._valid_until.clear()

    def is_valid(self, authorization: str) -> bool:
        """Return True if a header ``Authorization`` has a token that has not expired."""
        return time.monotonic() < self._valid_until.get(authorization.removeprefix("Bearer "), 0)


class SignatureGateway(TokenGateway):
    """An HTTP proxy to a REST catalog that requires requests signed for Amazon S3 Tables.

    It checks the access key and the scope of a signature, and not the signature itself.
    """

    def is_valid(self, authorization: str) -> bool:
        """Return True if a header ``Authorization`` has a signature for S3 Tables."""
        scope = rf"AWS4-HMAC-SHA256 Credential={KEY}/\d{{8}}/us-east-1/s3tables/aws4_request,"
        return re.match(scope, authorization) is not None


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"

    @property
    def gateway(self) -> TokenGateway:
        """The server of this connection."""
        assert isinstance(self.server, TokenGateway)
        return self.server

    def _answer_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_commit = self.command == "POST" and "/tables/orders" in self.path
        path = self.gateway.routes.to_reference(self.path)
        if self.path.partition("?")[0] == self.gateway.routes.token:
            self._answer_token_request(parse_qs(body.decode()))
        elif not self.gateway.is_valid(self.headers.get("Authorization", "")):
            self._refuse(401, "NotAuthorizedException")
        elif path is None:
            self._refuse(404, "NoSuchAddressException")
        elif is_commit and self.gateway.refusals:
            self._refuse(self.gateway.refusals.pop(0), "CommitFailedException")
        elif is_commit and self.gateway.lost_answers:
            self._pass_on(path, body)
            self._refuse(self.gateway.lost_answers.pop(0), "CommitStateUnknownException")
        else:
            self._answer(*self._pass_on(path, body))

    def _refuse(self, status: int, kind: str) -> None:
        """Answer with an error as the REST specification describes it."""
        error = {"message": "refused by the test", "type": kind, "code": status}
        self._answer(status, json.dumps({"error": error}).encode())

    do_GET = do_POST = do_HEAD = do_DELETE = _answer_any  # noqa: N815  (names of http.server)

    def _answer_token_request(self, form: Mapping[str, list[str]]) -> None:
        client = (form.get("client_id", [""])[0], form.get("client_secret", [""])[0])
        subject = form.get("subject_token", [""])[0]
        basic = b64encode(":".join(CLIENT).encode()).decode()
        has_basic = self.headers.get("Authorization") == f"Basic {basic}"
        if client != CLIENT and not has_basic and not self.gateway.is_valid(subject):
            refusal = {"error": "invalid_client", "error_description": "Unknown client"}
            self._answer(401, json.dumps(refusal).encode())
            return
        token: dict[str, Any] = {
            "access_token": self.gateway.issue(),
            "token_type": "bearer",
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "expires_in": self.gateway.lifetime,
        }
        self._answer(200, json.dumps(token).encode())

    def _pass_on(self, path: str, body: bytes) -> tuple[int, bytes, str | None]:
        """Send the request to the catalog; return its status, body and content type."""
        self.gateway.delegations.add(self.headers.get("X-Iceberg-Access-Delegation"))
        connection = http.client.HTTPConnection(_HERE, self.gateway.behind, timeout=60)
        forwarded = ("Content-Type", "Accept", "X-Iceberg-Access-Delegation")
        headers = {name: self.headers[name] for name in forwarded if name in self.headers}
        connection.request(self.command, path, body or None, headers)
        response = connection.getresponse()
        content, kind = response.read(), response.getheader("Content-Type")
        connection.close()
        if path.partition("?")[0] == "/v1/config" and self.gateway.routes.prefix:
            config = json.loads(content)
            config["overrides"] = {**config["overrides"], "prefix": self.gateway.routes.prefix}
            content = json.dumps(config).encode()
        return response.status, content, kind

    def _answer(self, status: int, body: bytes, kind: str | None = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind or "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""
