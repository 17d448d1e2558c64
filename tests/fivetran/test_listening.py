"""The address a server listens on, and the warning about who can reach it."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from tap_core.protocols.fivetran.listen_address import (
    ALL_ADDRESSES,
    ListenAddress,
    check_host,
    has_ipv6,
)
from tap_core.protocols.fivetran.port_command import port_command
from tap_core.protocols.fivetran.port_option import HOST_VARIABLE
from tap_core.protocols.fivetran.request_limits import MESSAGE_LIMIT, RequestLimits
from tests.fivetran.connecting import HERE, ROOT

SHOP = [sys.executable, str(HERE / "shop.py")]
SPARK = [sys.executable, "-m", "target_spark"]


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("localhost", True),
        ("LocalHost", True),
        ("::ffff:127.0.0.1", True),
        (ALL_ADDRESSES, False),
        ("::", False),
        ("10.0.0.7", False),
        ("localhost.example.com", False),
        ("::ffff:10.0.0.7", False),
    ],
)
def test_loopback_addresses_are_recognized(host: str, is_loopback: bool) -> None:
    assert ListenAddress(1, host).is_loopback is is_loopback


@pytest.mark.skipif(not has_ipv6("::1"), reason="this machine has no IPv6")
def test_ipv6_address_has_brackets() -> None:
    assert ListenAddress(0, check_host("[::1]")).resolve().startswith("[::1]:")
    assert ListenAddress(0, "127.0.0.1").resolve().startswith("127.0.0.1:")


@pytest.mark.parametrize("host", ["localhost", ALL_ADDRESSES])
@pytest.mark.parametrize("occupied", ["127.0.0.1", "::1"])
def test_port_must_be_free_on_ipv4_and_ipv6(host: str, occupied: str) -> None:
    if ":" in occupied and not has_ipv6(occupied):
        pytest.skip("this machine has no IPv6")
    family = socket.AF_INET6 if ":" in occupied else socket.AF_INET
    with socket.create_server((occupied, 0), family=family) as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=os.strerror(errno.EADDRINUSE)):
            ListenAddress(port, host).resolve()


@pytest.mark.parametrize("host", ["", "unix:/tmp/x", "a/b", "-x", "::1::", "dns:///x", "a b"])
def test_invalid_host_is_rejected(host: str, capsys: Any) -> None:
    with pytest.raises(SystemExit, match="2"):
        port_command("tap-x", lambda _: 0).main(["--port", "1", f"--host={host}"])
    assert "--host" in capsys.readouterr().err


def parse_arguments(*arguments: str) -> ListenAddress:
    addresses: list[ListenAddress] = []
    command = port_command("tap-x", lambda address: addresses.append(address) or 0)
    command.main(["--port", "5", *arguments], standalone_mode=False)
    return addresses[0]


def test_options_set_host_and_request_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HOST_VARIABLE, raising=False)
    assert parse_arguments() == ListenAddress(5)
    assert parse_arguments().limits == RequestLimits(calls=32, message=16 << 20, held=128 << 20)
    largest = parse_arguments("--max-request", str(1 << 40), "--max-held", str(1 << 40)).limits
    assert (largest.message, largest.held) == (MESSAGE_LIMIT, 1 << 40)
    monkeypatch.setenv(HOST_VARIABLE, "localhost")
    assert parse_arguments().host == "localhost"
    arguments = ("--host", "::1", "--max-calls", "2", "--max-request", "300", "--max-held", "200")
    assert parse_arguments(*arguments) == ListenAddress(5, "::1", RequestLimits(2, 200, 200))


@contextmanager
def start_server(*command: str, **variables: str) -> Iterator[tuple[Any, list[dict[str, str]]]]:
    """Run a server; yield its process and the first two lines of its log."""
    env = {key: value for key, value in os.environ.items() if key != HOST_VARIABLE}
    process = subprocess.Popen(
        [*command, "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**env, "PYTHONPATH": str(ROOT), **variables},
    )
    try:
        lines = [json.loads(process.stdout.readline())]
        if "127.0.0.1" not in lines[0]["message"]:
            lines.append(json.loads(process.stdout.readline()))
        yield process, lines
    finally:
        process.terminate()
        remaining_lines = process.communicate(timeout=60)[0].splitlines()
        lines += map(json.loads, remaining_lines)


@pytest.mark.parametrize("program", [SHOP, SPARK], ids=["connector", "destination"])
def test_listening_on_all_addresses_logs_a_warning(program: list[str]) -> None:
    """SEC2: the server warns of an address that other machines reach, and names it."""
    with start_server(*program) as (_, lines):
        assert lines[0]["message"].startswith("Listening on port ")
    assert lines[1]["level"] == "WARNING"
    assert ALL_ADDRESSES in lines[1]["message"]
    assert "--host 127.0.0.1" in lines[1]["message"]


def test_address_of_another_machine_is_an_error_that_names_the_option() -> None:
    """192.0.2.1 is reserved for documentation (RFC 5737), so no machine has it."""
    command = [*SHOP, "--port", "0", "--host", "192.0.2.1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    message = json.loads(process.stdout)["message"]
    assert message.startswith("Address 192.0.2.1 cannot be listened on: ")
    assert message.endswith("Choose another one with --host.")


@pytest.mark.parametrize("program", [SHOP, SPARK], ids=["connector", "destination"])
def test_loopback_host_accepts_no_connection_from_other_addresses(program: list[str]) -> None:
    """SEC2: with --host 127.0.0.1 other addresses of the machine do not answer."""
    with start_server(*program, "--host", "127.0.0.1") as (_, lines):
        port = int(lines[0]["message"].split()[3])
        socket.create_connection(("127.0.0.1", port), timeout=60).close()
        for address in own_addresses():
            with pytest.raises(OSError, match=r"."):
                socket.create_connection((address, port), timeout=60)
    assert [line["level"] for line in lines if line["level"] != "INFO"] == []


def own_addresses() -> set[str]:
    """Return other addresses of this machine, at least one of its loopback network."""
    addresses: set[str] = set()
    with suppress(socket.gaierror):  # some machines cannot resolve their own name
        addresses = {str(entry[4][0]) for entry in socket.getaddrinfo(socket.gethostname(), None)}
    return {"127.0.0.2", *(entry for entry in addresses if entry not in {"127.0.0.1", "::1"})}
