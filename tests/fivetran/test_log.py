"""The JSON log of a server: its lines contain no secrets, no repetitions and no tracebacks."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tap_core.http.retry import retry_logger
from tap_core.protocols.fivetran.logging import ServerLog, truncate_text
from tap_core.redaction import escape_control_characters

ROOT = Path(__file__).resolve().parents[2]
MAX_HEADER_BYTES = 8_000
UNENCODED_CHARACTERS = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


@pytest.fixture
def server_log() -> ServerLog:
    return ServerLog("sdk_connector")


@pytest.fixture
def read_lines(capfd: pytest.CaptureFixture[str]):
    """Return a function that returns the log lines since its last call."""
    return lambda: [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def get_messages(lines: list[dict[str, str]]) -> list[str]:
    return [line["message"] for line in lines]


# ------------------------------------------------------------------------- lines


def test_line_has_only_level_message_and_origin(server_log, read_lines) -> None:
    """F2: the third key is spelled with a hyphen."""
    with server_log.attached():
        server_log.write("INFO", "Größe: 3")
    assert read_lines() == [
        {"level": "INFO", "message": "Größe: 3", "message-origin": "sdk_connector"}
    ]


@settings(deadline=None, max_examples=60)
@given(text=st.text(st.characters(), max_size=40) | st.text("\n\r\u2028\x85\x0b\ud83d\x00%\\"))
def test_any_text_is_one_line_of_json(text: str) -> None:
    """F2: also text with line separators, control characters and lone surrogates."""
    written: list[str] = []
    server_log = ServerLog("sdk_destination")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", ListOutput(written))
        server_log.write("WARNING", text)
    line = "".join(written)
    assert len(line.splitlines()) == 1
    assert line.encode()
    valid = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert json.loads(line)["message"] == escape_control_characters(valid)


class ListOutput:
    """An output that appends what is written to a list."""

    def __init__(self, written: list[str]) -> None:
        self.write = written.append

    def flush(self) -> None:
        pass


@settings(deadline=None, max_examples=40)
@given(
    text=st.builds(
        lambda part, times: part * times,
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
        st.integers(1, 800),
    )
)
def test_truncated_text_fits_into_a_header(text: str) -> None:
    """F4: below 8 kB as a status in JSON, percent-encoded for HTTP/2, and as a Task."""
    truncated = truncate_text(text)
    status = json.dumps({"message": truncated, "alert_type": "TASK"})
    assert len(quote(status, safe=UNENCODED_CHARACTERS)) < MAX_HEADER_BYTES
    assert len(truncated.encode()) < MAX_HEADER_BYTES
    assert truncated == text or (truncated.endswith("...") and text.startswith(truncated[:-3]))
    assert truncated == text or len(truncated) > 600


def test_print_writes_to_standard_error(server_log, capfd) -> None:
    """F2: standard output contains only the log."""
    with server_log.attached(), server_log.attached():
        print("printed by a tap")
        server_log.write("INFO", "logged")
    out, err = capfd.readouterr()
    assert get_messages([json.loads(line) for line in out.splitlines()]) == ["logged"]
    assert "printed by a tap" in err
    print("as before")
    assert capfd.readouterr().out == "as before\n"


@pytest.mark.parametrize("output", [">&-", "| exit", "> /dev/full"])
def test_closed_or_full_standard_output_does_not_stop_the_server(output: str) -> None:
    program = (
        "import sys, time\n"
        "from tap_core.protocols.fivetran.logging import ServerLog\n"
        "log = ServerLog('x')\n"
        "with log.attached():\n"
        "    for _ in range(5): time.sleep(0.01); log.write('INFO', 'x' * 20_000)\n"
        "    print('still running', file=sys.stderr)\n"
    )
    shell = f"'{sys.executable}' -c \"{program}\" {output}"
    process = subprocess.run(
        ["bash", "-c", shell], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert process.stderr.splitlines()[0] == "still running", process.stderr


# ------------------------------------------------------------------------- levels


def test_only_server_events_warnings_and_errors_are_logged(server_log, read_lines) -> None:
    """F2: other loggers contribute only warnings and errors."""
    with server_log.attached():
        logging.getLogger("some.library").info("no")
        logging.getLogger("fivetran.update").info("a table is done")
        logging.getLogger("fivetran").debug("no")
        logging.getLogger("fivetranslation").info("no")
        logging.getLogger("a").warning("a warning")
        logging.getLogger("b").critical("broken: %s", "all")
    lines = read_lines()
    assert get_messages(lines) == ["a table is done", "a warning", "broken: all"]
    assert [line["level"] for line in lines] == ["INFO", "WARNING", "SEVERE"]


def test_exception_is_logged_by_type_without_traceback(server_log, read_lines) -> None:
    """F2, F3: neither the traceback nor the message of the exception is logged."""
    with server_log.attached():
        try:
            {}["a value of a row"]
        except KeyError:
            logging.getLogger("a").exception("Reading failed")
        logging.getLogger("a").error("Arguments %d do not fit", "that")
    assert get_messages(read_lines()) == ["Reading failed (KeyError)", "Arguments %d do not fit"]


def test_retries_are_logged_once_per_call_as_a_warning(server_log, read_lines) -> None:
    """F5: although the waiting time and the error differ between tries."""

    def log_retries() -> None:
        for number in range(3):
            waits = (2.5**number, f"an error at {number}")
            retry_logger.info("Backing off %0.2f seconds, failing with %s", *waits)

    with server_log.attached():
        for _ in range(2):
            with server_log.call():
                log_retries()
        log_retries()
    lines = read_lines()
    assert get_messages(lines) == ["Backing off 1.00 seconds, failing with an error at 0"] * 3
    assert {line["level"] for line in lines} == {"WARNING"}


def test_warnings_that_differ_only_in_numbers_are_logged_once(server_log, read_lines) -> None:
    with server_log.attached(), server_log.call():
        for number in range(3):
            logging.getLogger("a").warning("Table %s: row %d is odd", "t", number)
            logging.getLogger("a").warning("Table %s: row %d is odd", "u", number)
    assert get_messages(read_lines()) == ["Table t: row 0 is odd", "Table u: row 0 is odd"]


def test_repeated_warnings_are_limited(server_log, read_lines) -> None:
    """F2: a warning for every row is limited however it is worded."""
    with server_log.attached(), server_log.call():
        for number in range(1_000):
            logging.getLogger("a").warning("Row %s is odd", f"x{number}")
            logging.getLogger("a").error(f"Row {number} is odd")  # noqa: G004  so do authors
    levels = [line["level"] for line in read_lines()]
    assert levels.count("WARNING") == 10
    assert 10 < levels.count("SEVERE") < 200


def test_python_warnings_are_logged_without_their_location(server_log, read_lines) -> None:
    with server_log.attached(), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("one", stacklevel=1)
        warnings.warn("two", DeprecationWarning, stacklevel=1)
    assert get_messages(read_lines()) == ["UserWarning: one", "DeprecationWarning: two"]


def test_logging_configuration_is_restored_when_the_server_ends(server_log, caplog) -> None:
    with server_log.attached():
        pass
    logging.getLogger("a").warning("logged elsewhere")
    assert caplog.messages == ["logged elsewhere"]


# ------------------------------------------------------------------------- secrets


def make_redactor(secret: str):
    return lambda text: text.replace(secret, "***")


def test_secrets_of_a_call_are_masked_in_every_thread_and_afterwards(
    server_log, read_lines
) -> None:
    """F3: the log contains no credentials, whichever thread logs them."""
    inside, finish = threading.Event(), threading.Event()

    def call() -> None:
        with server_log.call():
            server_log.add_redactor(make_redactor("hunter2"))
            server_log.write("INFO", "with hunter2")
            inside.set()
            finish.wait(60)

    with server_log.attached():
        thread = threading.Thread(target=call)
        thread.start()
        assert inside.wait(60)
        for number in range(100):  # other calls begin and end meanwhile
            with server_log.call():
                server_log.add_redactor(make_redactor(f"other{number}."))
        logging.getLogger("a").warning("another thread: %s", "hunter2")
        finish.set()
        thread.join()
        server_log.write("SEVERE", "and late: hunter2, other99.")
    assert get_messages(read_lines()) == ["with ***", "another thread: ***", "and late: ***, ***"]
    assert len(server_log._old_redactors) < 100, "the redactors of ended calls are dropped"


def test_addresses_are_scrubbed_before_truncation(read_lines) -> None:
    """F3: not even part of an address is left at the end of a long message."""
    server_log = ServerLog(
        "sdk_connector", lambda text: text.replace("https://host/path", "(address)")
    )
    with server_log.attached():
        server_log.write("INFO", "x" * 7_795 + "https://host/path")
    (line,) = read_lines()
    assert "https" not in line["message"]
    assert line["message"].endswith("x(addr...")


def test_message_whose_scrubbing_fails_is_not_logged(read_lines) -> None:
    def scrub(text: str) -> str:
        raise ValueError(text)

    server_log = ServerLog("sdk_connector", scrub)
    with server_log.attached():
        server_log.write("INFO", "a secret")
    assert get_messages(read_lines()) == ["A text could not be cleaned for the log (ValueError)."]


def test_debug_level_prints_a_masked_traceback_to_standard_error(
    server_log, capfd, monkeypatch
) -> None:
    monkeypatch.setenv("LOGLEVEL", "debug")
    with server_log.attached(), server_log.call():
        server_log.add_redactor(make_redactor("hunter2"))
        try:
            int("hunter2")
        except ValueError:
            logging.getLogger("a").exception("Reading failed")
    out, err = capfd.readouterr()
    assert json.loads(out)["message"] == "Reading failed (ValueError)"
    assert "Traceback" in err
    assert "with base 10: '***'" in err
