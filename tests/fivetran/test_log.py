"""The log of a server: lines that any reader takes, without secrets, repetitions and traces."""

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

from tap_core.protocols.fivetran.logging import JsonLogHandler, truncate_text
from tap_core.redaction import escape_control_characters

ROOT = Path(__file__).resolve().parents[2]
HEADER = 8_000
PLAIN = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


@pytest.fixture
def journal() -> JsonLogHandler:
    return JsonLogHandler("sdk_connector")


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str]):
    """Return what has been said since the last time, line by line."""
    return lambda: [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def texts(lines: list[dict[str, str]]) -> list[str]:
    return [line["message"] for line in lines]


# ------------------------------------------------------------------------- lines


def test_a_line_has_level_message_and_origin_and_nothing_else(journal, said) -> None:
    """F2, also that the third key is written with a hyphen."""
    with journal.attached():
        journal.say("INFO", "Größe: 3")
    assert said() == [{"level": "INFO", "message": "Größe: 3", "message-origin": "sdk_connector"}]


@settings(deadline=None, max_examples=60)
@given(text=st.text(st.characters(), max_size=40) | st.text("\n\r\u2028\x85\x0b\ud83d\x00%\\"))
def test_any_text_is_one_line_of_json(text: str) -> None:
    """F2: whatever a reader takes for the end of a line, and for UTF-8."""
    written: list[str] = []
    journal = JsonLogHandler("sdk_destination")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", Collects(written))
        journal.say("WARNING", text)
    line = "".join(written)
    assert len(line.splitlines()) == 1
    assert line.encode()
    mended = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert json.loads(line)["message"] == escape_control_characters(mended)


class Collects:
    """Takes what is written."""

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
def test_a_text_that_is_told_fits_into_a_header(text: str) -> None:
    """F4: below 8 kB as a status in JSON, in the letters of HTTP/2, and as a Task."""
    told = truncate_text(text)
    status = json.dumps({"message": told, "alert_type": "TASK"})
    assert len(quote(status, safe=PLAIN)) < HEADER
    assert len(told.encode()) < HEADER
    assert told == text or (told.endswith("...") and text.startswith(told[:-3]))
    assert told == text or len(told) > 600


def test_what_prints_goes_to_standard_error(journal, capfd) -> None:
    """F2: nothing but the log stands on standard output."""
    with journal.attached(), journal.attached():
        print("printed by a tap")
        journal.say("INFO", "told")
    out, err = capfd.readouterr()
    assert texts([json.loads(line) for line in out.splitlines()]) == ["told"]
    assert "printed by a tap" in err
    print("as before")
    assert capfd.readouterr().out == "as before\n"


@pytest.mark.parametrize("output", [">&-", "| exit", "> /dev/full"])
def test_an_output_that_is_not_read_blocks_nothing(output: str) -> None:
    program = (
        "import sys, time\n"
        "from tap_core.protocols.fivetran.logging import JsonLogHandler\n"
        "j = JsonLogHandler('x')\n"
        "with j.attached():\n"
        "    for _ in range(5): time.sleep(0.01); j.say('INFO', 'x' * 20_000)\n"
        "    print('lived', file=sys.stderr)\n"
    )
    shell = f"'{sys.executable}' -c \"{program}\" {output}"
    done = subprocess.run(
        ["bash", "-c", shell], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[0] == "lived", done.stderr


# ------------------------------------------------------------------------- what is heard


def test_only_what_concerns_people_is_reported(journal, said) -> None:
    """F2: of others only warnings and errors, of the server what it did."""
    with journal.attached():
        logging.getLogger("some.library").info("no")
        logging.getLogger("fivetran.update").info("a table is done")
        logging.getLogger("fivetran").debug("no")
        logging.getLogger("fivetranslation").info("no")
        logging.getLogger("a").warning("a warning")
        logging.getLogger("b").critical("broken: %s", "all")
    lines = said()
    assert texts(lines) == ["a table is done", "a warning", "broken: all"]
    assert [line["level"] for line in lines] == ["INFO", "WARNING", "SEVERE"]


def test_an_error_is_told_by_its_kind_and_without_trace(journal, said) -> None:
    """F2, F3: neither a traceback nor the unchecked text of an error."""
    with journal.attached():
        try:
            {}["a value of a row"]
        except KeyError:
            logging.getLogger("a").exception("Reading failed")
        logging.getLogger("a").error("Arguments %d do not fit", "that")
    assert texts(said()) == ["Reading failed (KeyError)", "Arguments %d do not fit"]


def test_a_fault_that_is_tried_again_is_said_once_in_each_call(journal, said) -> None:
    """F5: not before each try, whatever has changed since; and it is no failure yet."""

    def tries() -> None:
        for number in range(3):
            waits = (2.5**number, f"an error at {number}")
            logging.getLogger("a").error("Backing off %0.2f seconds, failing with %s", *waits)

    with journal.attached():
        for _ in range(2):
            with journal.call():
                tries()
        tries()
    lines = said()
    assert texts(lines) == ["Backing off 1.00 seconds, failing with an error at 0"] * 3
    assert {line["level"] for line in lines} == {"WARNING"}


def test_warnings_that_differ_in_numbers_alone_are_said_once(journal, said) -> None:
    with journal.attached(), journal.call():
        for number in range(3):
            logging.getLogger("a").warning("Table %s: row %d is odd", "t", number)
            logging.getLogger("a").warning("Table %s: row %d is odd", "u", number)
    assert texts(said()) == ["Table t: row 0 is odd", "Table u: row 0 is odd"]


def test_no_warning_is_said_with_every_row(journal, said) -> None:
    """F2: however it is worded."""
    with journal.attached(), journal.call():
        for number in range(1_000):
            logging.getLogger("a").warning("Row %s is odd", f"x{number}")
            logging.getLogger("a").error(f"Row {number} is odd")  # noqa: G004  so do authors
    levels = [line["level"] for line in said()]
    assert levels.count("WARNING") == 10
    assert 10 < levels.count("SEVERE") < 200


def test_warnings_of_python_are_told_without_their_place(journal, said) -> None:
    with journal.attached(), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("one", stacklevel=1)
        warnings.warn("two", DeprecationWarning, stacklevel=1)
    assert texts(said()) == ["UserWarning: one", "DeprecationWarning: two"]


def test_the_log_is_as_before_once_the_server_has_ended(journal, caplog) -> None:
    with journal.attached():
        pass
    logging.getLogger("a").warning("heard elsewhere")
    assert caplog.messages == ["heard elsewhere"]


# ------------------------------------------------------------------------- secrets


def hiding(secret: str):
    return lambda text: text.replace(secret, "***")


def test_secrets_of_a_call_are_hidden_in_it_beside_it_and_after_it(journal, said) -> None:
    """F3: no credentials in the log, whichever thread says them."""
    inside, done = threading.Event(), threading.Event()

    def call() -> None:
        with journal.call():
            journal.hide_also(hiding("hunter2"))
            journal.say("INFO", "with hunter2")
            inside.set()
            done.wait(60)

    with journal.attached():
        thread = threading.Thread(target=call)
        thread.start()
        assert inside.wait(60)
        for number in range(100):  # others come and go meanwhile
            with journal.call():
                journal.hide_also(hiding(f"other{number}."))
        logging.getLogger("a").warning("a thread of its own: %s", "hunter2")
        done.set()
        thread.join()
        journal.say("SEVERE", "and late: hunter2, other99.")
    assert texts(said()) == ["with ***", "a thread of its own: ***", "and late: ***, ***"]
    assert len(journal._ended) < 100, "what is hidden is not remembered for ever"


def test_what_the_connector_scrubs_is_scrubbed_before_a_text_is_cut(said) -> None:
    """F3: no address, path or parameter, not even half of one at the end of a long text."""
    journal = JsonLogHandler(
        "sdk_connector", lambda text: text.replace("https://host/path", "(address)")
    )
    with journal.attached():
        journal.say("INFO", "x" * 7_795 + "https://host/path")
    (line,) = said()
    assert "https" not in line["message"]
    assert line["message"].endswith("x(addr...")


def test_a_text_that_cannot_be_cleaned_is_not_told(said) -> None:
    def scrub(text: str) -> str:
        raise ValueError(text)

    journal = JsonLogHandler("sdk_connector", scrub)
    with journal.attached():
        journal.say("INFO", "a secret")
    assert texts(said()) == ["A text could not be cleaned for the log (ValueError)."]


def test_a_trace_is_on_standard_error_for_who_asks_and_cleaned_too(
    journal, capfd, monkeypatch
) -> None:
    monkeypatch.setenv("LOGLEVEL", "debug")
    with journal.attached(), journal.call():
        journal.hide_also(hiding("hunter2"))
        try:
            int("hunter2")
        except ValueError:
            logging.getLogger("a").exception("Reading failed")
    out, err = capfd.readouterr()
    assert json.loads(out)["message"] == "Reading failed (ValueError)"
    assert "Traceback" in err
    assert "with base 10: '***'" in err
