"""Checks for Fivetran connectors and destinations: the form, the connection tests and error texts.

Broken rules are recorded in a `Findings` object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from fivetran_tester.client import TEXT_LIMIT, Client, RefusedError
from fivetran_tester.configuration import get_fields
from fivetran_tester.findings import Findings
from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.enums import TextField
from tap_core.redaction import is_secret

__all__ = [
    "StoppedError",
    "call_rpc",
    "check_form",
    "check_refusal",
    "check_text",
    "run_connection_tests",
    "stop_if_refused",
]

_UNKNOWN_TEST: Final = "no such test"
_GRPC_CODES: Final = frozenset({"UNKNOWN", "UNIMPLEMENTED", "UNAVAILABLE", "RESOURCE_EXHAUSTED"})
"""Status codes that gRPC generates for failures outside the handlers."""


class StoppedError(Exception):
    """Error that ends a test that cannot continue, for example because the server refuses a call.

    The message gives the reason.
    """


def check_form(form: Any, findings: Findings) -> None:
    """Check the configuration form that a Fivetran server returns, and record the broken rules.

    The rules are F6 and F7 of ``docs/fivetran.md``.
    """
    fields = list(get_fields(form))
    names = [field.name for field in form.fields if field.name]
    for name in sorted({name for name in names if names.count(name) > 1}):
        findings.add_violation(6, f"the form asks for {name} twice")
    for field in fields:
        label = field.name or "a field without a name"
        kind = field.WhichOneof("type")
        if not field.name or not field.label:
            findings.add_violation(6, f"{label} has no name or no label")
        if kind is None:
            findings.add_violation(6, f"{label} has no type")
        is_open = kind == "text_field" and field.text_field == TextField.PlainText
        if is_open and is_secret(field.name.rpartition(".")[2]):
            findings.add_violation(6, f"{label} looks like a secret and is an open text field")
        if not field.description:
            findings.add_warning(6, f"{label} has no description")
    if not form.tests:
        findings.add_warning(7, "the form names no test")


def run_connection_tests(
    client: Client,
    findings: Findings,
    form: Any,
    configuration: Mapping[str, str],
    say: Callable[[str], None],
) -> bool:
    """Run the connection tests that a server's form lists, and one that does not exist.

    The results are printed with ``say``. A warning is recorded if the unknown test succeeds.

    Returns:
        True if all listed tests pass; False if one fails.
    """
    passes = True
    for test in form.tests:
        fault = _run_test(client, findings, test.name, configuration)
        result = "passed" if fault is None else f"failed, {fault}"
        say(f"Test {test.label or test.name}: {result}")
        passes = passes and fault is None
    if _run_test(client, findings, _UNKNOWN_TEST, configuration) is None:
        findings.add_warning(7, "a test that does not exist succeeds")
    return passes


def _run_test(
    client: Client, findings: Findings, name: str, configuration: Mapping[str, str]
) -> str | None:
    """Run a server's connection test ``name``; return the reason for a failure, or None."""
    request = proto_messages.TestRequest(name=name, configuration=configuration)
    try:
        response = client.call("Test", request)
    except RefusedError as refusal:
        check_refusal(refusal, findings)
        return refusal.text
    kind = response.WhichOneof("response")
    if kind == "failure":
        check_text(f"the failure of the test {name}", response.failure, findings)
        return str(response.failure)
    if kind is None or not response.success:
        findings.add_violation(7, f"the test {name} returns neither success nor failure")
    return None


def call_rpc(client: Client, findings: Findings, rpc: str, request: Any) -> Any:
    """Call an rpc that has one response, and return the response.

    Raises:
        StoppedError: The call failed. Broken rules of its error status are recorded.
    """
    with stop_if_refused(findings):
        return client.call(rpc, request)


@contextmanager
def stop_if_refused(findings: Findings) -> Iterator[None]:
    """Context manager that, if a gRPC call in its block fails, checks the status and ends the test.

    Raises:
        StoppedError: A call failed.
    """
    try:
        yield
    except RefusedError as refusal:
        check_refusal(refusal, findings)
        raise StoppedError(str(refusal)) from None


def check_refusal(refusal: RefusedError, findings: Findings) -> None:
    """Check the error status of a failed gRPC call, and record the broken rules in ``findings``."""
    if refusal.code == "DEADLINE_EXCEEDED":
        findings.add_violation(12, f"{refusal.rpc} does not end in the time that a call may take")
        return
    check_text(f"the status of {refusal.rpc}", refusal.text, findings)
    if refusal.code in _GRPC_CODES and not refusal.is_task:
        findings.add_violation(4, f"{refusal.rpc} ends with {refusal.code} and no task")
    elif not refusal.is_task:
        findings.add_warning(
            4, f"the status of {refusal.rpc} is not JSON with message and alert_type"
        )


def check_text(subject: str, text: str, findings: Findings) -> None:
    """Check that an error text is neither empty nor too long to be sent, and record violations.

    ``subject`` describes the text in the findings.
    """
    if not text:
        findings.add_violation(4, f"{subject} is empty")
    if len(text.encode()) >= TEXT_LIMIT:
        findings.add_violation(4, f"{subject} has {TEXT_LIMIT:,} bytes or more")
