"""Command `tap-core fivetran-test`: test a connector or a destination as Fivetran calls it.

Exit codes: 0 if no rule of the protocol is broken, 1 if one is broken or the test cannot continue,
2 if the server cannot be started.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fivetran_tester.common_checks import StoppedError
from fivetran_tester.connector import FIRST_STATE, ConnectorTester
from fivetran_tester.destination import DestinationTester
from fivetran_tester.findings import Findings
from fivetran_tester.server_pool import Servers
from fivetran_tester.server_process import NotStartedError
from tap_core.redaction import redact_lines
from tap_core.singerlib.json import load_json

__all__ = ["TesterOptions", "run_test"]

_EXIT_NOT_STARTED: Final = 2


@dataclass(frozen=True, slots=True)
class TesterOptions:
    """Options of `tap-core fivetran-test`; paths and texts that were not passed are empty.

    Attributes:
        command: Program that starts the server, with its arguments; empty if ``address`` is set.
        config: Path of the settings file.
        state: Path of the state file with which the first sync starts.
        destination: True to test a destination, False to test a connector.
        address: ``host:port`` of a running server; empty if ``command`` is set.
        seconds: Time limit of one gRPC call.
        resumes: Number of earlier checkpoints to resume from, each in a fresh process.
    """

    command: list[str]
    config: str
    state: str
    destination: bool
    address: str
    seconds: float
    resumes: int


def run_test(options: TesterOptions) -> int:
    """Test a Fivetran connector or destination, print the findings, and return the exit code."""
    findings = Findings()
    try:
        return _run_tester(options, findings)
    except (NotStartedError, ValueError, OSError) as error:
        _print_line(f"Cannot start: {error}")
        return _EXIT_NOT_STARTED


def _run_tester(options: TesterOptions, findings: Findings) -> int:
    settings = _read_document(options.config)
    service = "DestinationConnector" if options.destination else "SourceConnector"
    servers = Servers(service, findings, options.command, options.address, options.seconds)
    tester: DestinationTester | ConnectorTester
    if options.destination:
        tester = DestinationTester(servers, settings, _print_line)
    else:
        has_state = bool(_read_document(options.state))
        state = Path(options.state).read_text("utf-8") if has_state else FIRST_STATE
        tester = ConnectorTester(servers, settings, _print_line, state, options.resumes)
    stopped = False
    try:
        with _stop_servers_on_sigterm(servers):
            tester.run()
    except StoppedError as error:
        _print_line(f"The test stops here. {error}")
        stopped = True
    for line in findings.lines():
        _print_line(line)
    _print_line("No rule is broken." if not findings and not stopped else "The test failed.")
    return int(bool(findings) or stopped)


@contextmanager
def _stop_servers_on_sigterm(servers: Servers) -> Iterator[None]:
    """Context manager that, on SIGTERM, ends the tested servers and exits from this process.

    The signal handler exits directly instead of raising an exception, because gRPC may swallow an
    exception.
    """

    def stop(number: int, _frame: object) -> None:
        servers.terminate()
        os._exit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _read_document(path: str) -> dict[str, Any]:
    """Return the JSON object in a file, or an empty dict if ``path`` is empty.

    Raises:
        NotStartedError: The file cannot be read, or does not contain a JSON object.
    """
    if not path:
        return {}
    try:
        document = load_json(Path(path).read_bytes())
    except OSError as error:
        raise NotStartedError(f"the file {path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise NotStartedError(f"the file {path} is not JSON: {error}.") from None
    if not isinstance(document, dict):
        raise NotStartedError(f"{Path(path).name} is not a JSON object.")
    return document


def _print_line(text: str) -> None:
    # The server chooses names, labels and errors, which a terminal must not interpret.
    print(redact_lines(text), flush=True)  # noqa: T201  (the command's output)
