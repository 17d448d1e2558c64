"""Command `tap-core fivetran-test`: test a connector or a destination as Fivetran calls it.

Exit codes: 0 if no rule is broken, 1 if one is broken or the test cannot continue, 2 if the server
cannot be started or the arguments are invalid.
"""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from fivetran_tester.common_checks import StoppedError
from fivetran_tester.connector import FIRST_STATE, ConnectorTester
from fivetran_tester.destination import DestinationTester
from fivetran_tester.findings import Findings
from fivetran_tester.server_pool import Servers
from fivetran_tester.server_process import NotStartedError
from tap_core.singerlib.json import load_json

__all__ = ["fivetran_test"]

_CANNOT: Final = 2


def fivetran_test(argv: Sequence[str]) -> int:
    """Run the command ``fivetran-test`` and return its exit code."""
    arguments = list(argv)
    separator = arguments.index("--") if "--" in arguments else len(arguments)
    parser = _parser()
    options = parser.parse_args(arguments[:separator])
    command = arguments[separator + 1 :]
    if bool(command) == bool(options.address):
        parser.error("pass either -- and a command to start, or --address")
    findings = Findings()
    try:
        return _run_tester(options, command, findings)
    except (NotStartedError, ValueError, OSError) as error:
        _print_line(f"Cannot start: {error}")
        return _CANNOT


def _run_tester(options: argparse.Namespace, command: list[str], findings: Findings) -> int:
    settings = _document(options.config)
    service = "DestinationConnector" if options.destination else "SourceConnector"
    servers = Servers(service, findings, command, options.address, options.seconds)
    tester: DestinationTester | ConnectorTester
    if options.destination:
        tester = DestinationTester(servers, settings, _print_line)
    else:
        state = options.state.read_text("utf-8") if _document(options.state) else FIRST_STATE
        tester = ConnectorTester(servers, settings, _print_line, state, options.resumes)
    stopped = False
    try:
        with _stops_servers_on_sigterm(servers):
            tester.run()
    except StoppedError as error:
        _print_line(f"The test stops here. {error}")
        stopped = True
    for line in findings.lines():
        _print_line(line)
    _print_line("No rule is broken." if not findings and not stopped else "The test failed.")
    return int(bool(findings) or stopped)


@contextmanager
def _stops_servers_on_sigterm(servers: Servers) -> Iterator[None]:
    """Context manager that handles SIGTERM by ending the started server and this process.

    The signal handler ends them directly instead of raising an exception, because gRPC may swallow
    it.
    """

    def stop(number: int, _frame: object) -> None:
        servers.terminate()
        os._exit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _document(path: Path | None) -> dict[str, Any]:
    """Return the JSON object in a file, or an empty dict if ``path`` is None.

    Raises:
        NotStartedError: The file does not contain a JSON object.
    """
    if path is None:
        return {}
    document = load_json(path.read_bytes())
    if not isinstance(document, dict):
        raise NotStartedError(f"{path.name} is not a JSON object.")
    return document


def _print_line(text: str) -> None:
    print(text, flush=True)  # noqa: T201  (the command's output)


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    parser = argparse.ArgumentParser(
        prog="tap-core fivetran-test",
        usage="tap-core fivetran-test [OPTION ...] -- COMMAND [ARGUMENT ...]",
        description="Test a Fivetran connector or destination as Fivetran calls it: the form, the"
        " tests, and each rpc. Report the rows that a destination would hold, and the broken rules"
        " of docs/fivetran.md. COMMAND is started with --port and a free port.",
    )
    parser.add_argument("--config", type=Path, help="the settings, a JSON file")
    parser.add_argument("--state", type=Path, help="the state of the first sync, a JSON file")
    parser.add_argument("--destination", action="store_true", help="test a destination")
    parser.add_argument("--address", default="", help="host:port of a running server")
    parser.add_argument("--seconds", type=float, default=3600, help="time limit of one call")
    parser.add_argument(
        "--resumes",
        type=int,
        default=2,
        metavar="N",
        help="number of earlier checkpoints to resume from in a fresh process",
    )
    return parser
