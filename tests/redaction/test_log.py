"""Log output: secrets of plugins are hidden, and untrusted text cannot forge lines."""

from __future__ import annotations

import gc
import io
import json
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tap_core.logging import ConsoleFormatter, StructuredFormatter
from tap_core.redaction import redact, register_secrets
from tap_core.redaction import text as redaction_text
from tap_core.redaction.log_records import RedactingFormatter, format_error
from tap_core.redaction.text import Secrets
from tap_core.tap_base import Tap

ROOT = Path(__file__).parents[2]
HOSTILE = "x\n2026-01-01 00:00:00,000 | CRITICAL | root | FORGED \x1b[31m\u2028y"


class QuietTap(Tap):
    name = "tap-quiet"
    config_jsonschema = {"properties": {"k": {"type": "string", "secret": True}}}

    def discover_streams(self):
        return []

    def _setup_signal_handlers(self) -> None:
        """Leave the signals to pytest."""


@pytest.fixture
def log():
    """Return a function that logs with a formatter and returns the text."""

    def write(formatter, *args, name="some.library", **kwargs):
        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        handler.setFormatter(formatter)
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        try:
            logger.debug(*args, **kwargs)
        finally:
            logger.removeHandler(handler)
        return stream.getvalue()

    return write


def raised(*args):
    try:
        raise ValueError(*args)  # noqa: TRY301  an error with a traceback
    except ValueError as error:
        return error


@pytest.mark.parametrize(
    "formatter", [ConsoleFormatter(), StructuredFormatter(), logging.Formatter("%(message)s"), None]
)
def test_secret_values_are_hidden_in_log_lines_of_every_library_and_format(log, formatter):
    """SEC5: values of secret settings are hidden in log lines of every library."""
    tap = QuietTap(config={"k": "cAnary-QQQ111"})
    text = log(formatter, '"GET %s HTTP/1.1" %s', "/ok?k=cAnary-QQQ111", 200)
    text += log(formatter, "failed", exc_info=raised("cAnary-QQQ111"))
    text += log(formatter, "x", extra={"given": {"deep": ["cAnary-QQQ111"]}})
    assert tap.config["k"] == "cAnary-QQQ111"
    assert "cAnary" not in text
    assert "/ok?k=***" in text
    assert "ValueError" in text


def test_secrets_stay_hidden_while_their_plugins_exist_and_for_recent_ones():
    class Owner:
        pass

    first, second = Owner(), Owner()
    register_secrets(first, Secrets.from_values(["first-secret"]))
    register_secrets(second, Secrets.from_values(["second-secret"]))
    assert redact("first-secret second-secret") == "*** ***"
    for number in range(40):
        register_secrets(Owner(), Secrets.from_values([f"passing-{number:03}"]))
    del first
    gc.collect()
    assert redact("first-secret second-secret passing-039") == "*** *** ***"
    assert redact("passing-000") == "passing-000"


def test_owners_without_secrets_do_not_displace_secrets_of_recent_owners():
    class Owner:
        pass

    register_secrets(Owner(), Secrets.from_values(["recent-secret"]))
    for _ in range(40):
        register_secrets(Owner(), Secrets())
    gc.collect()
    assert redact("recent-secret") == "***"


def test_number_of_tokens_of_an_owner_that_are_hidden_is_bounded():
    class Owner:
        pass

    owner = Owner()
    for number in range(150):
        register_secrets(owner, Secrets.from_values([f"token-{number:03}", "in-use"]))
        register_secrets(owner, Secrets())
    assert redact("token-049 token-050 token-149 in-use") == "token-049 *** *** ***"


def test_length_of_the_tokens_of_an_owner_that_are_hidden_is_bounded():
    """SEC13: a server may send a token of megabytes for each request; the latest is hidden."""

    class Owner:
        pass

    owner = Owner()
    for number in range(8):
        register_secrets(owner, Secrets.from_values([f"{number}" * 300_000]))
    redacted = redact("".join(f"{number}" * 300_000 for number in range(8)))
    assert redacted == "".join(f"{number}" * 300_000 for number in range(5)) + "***" * 3
    register_secrets(owner, Secrets.from_values(["x" * 2_000_000]))
    assert redact("7" * 300_000 + "x" * 2_000_000) == "7" * 300_000 + "***"


def test_encodings_of_secrets_are_computed_once(monkeypatch):
    """SEC13: they take seconds for a long token, and there may be a new one for each request."""

    class Owner:
        pass

    encoded = []
    encode = redaction_text._encode
    monkeypatch.setattr(
        redaction_text, "_encode", lambda value: encoded.append(value) or encode(value)
    )
    owner = Owner()
    for number in range(3):
        register_secrets(owner, Secrets.from_values([f"token-{number}"]))
        assert redact(f"token-0 token-{number}") == "*** ***"
    assert encoded == ["token-0", "token-1", "token-2"]


def test_secrets_can_be_registered_from_several_threads():
    class Owner:
        pass

    def work():
        for number in range(200):
            owner = Owner()
            register_secrets(owner, Secrets.from_values([f"secret-of-{number}"]))
            assert redact(f"<secret-of-{number}>") == "<***>"

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(
    "formatter", [ConsoleFormatter(), logging.Formatter("%(name)s %(message)s")]
)
def test_untrusted_text_cannot_start_a_log_line(log, formatter):
    """SEC7: text of the input cannot forge a line of the log."""
    text = log(formatter, "Property %s", HOSTILE, name=f"tap.{HOSTILE}")
    assert len(text.splitlines()) == 1
    assert "\x1b" not in text
    assert r"\n2026-01-01" in text


def test_error_message_cannot_forge_a_log_line_below_its_traceback(log):
    """SEC7: the message of an error cannot forge a line of the log."""
    error = raised(HOSTILE)
    error.__cause__ = raised(HOSTILE)
    if hasattr(error, "add_note"):
        error.add_note(HOSTILE)
    for text in (
        log(ConsoleFormatter(), "failed", exc_info=error),
        log(RedactingFormatter(logging.Formatter("%(message)s")), "failed", exc_info=error),
        format_error(error, redact),
    ):
        assert not [line for line in text.splitlines() if line.startswith("2026-01-01 00:00")]
        assert "\x1b" not in text
        assert text.count("Traceback (most recent call last):") == 2
        assert 'File "' in text


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups of errors came with Python 3.11")
def test_errors_of_an_exception_group_cannot_forge_log_lines():
    group = eval("ExceptionGroup")("several", [raised(HOSTILE), raised("b")])  # noqa: S307
    text = format_error(group, redact)
    assert not [line for line in text.splitlines() if line.lstrip(" |+-").startswith("2026-01-01")]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups of errors came with Python 3.11")
def test_notes_of_errors_in_a_group_cannot_forge_log_lines_or_show_a_secret():
    """SEC5, SEC7: Python writes each line of a note as a line of its own."""
    tap = QuietTap(config={"password": "cAnary-QQQ111"})
    error_with_note = raised("a")
    error_with_note.add_note(
        'x\n2026-01-01 00:00 ERROR forged\nFile "password=s3cr3t"\ncAnary-\nQQQ111'
    )
    group = eval("ExceptionGroup")("several", [eval("ExceptionGroup")("inner", [error_with_note])])  # noqa: S307
    outer = raised("outer")
    outer.__cause__ = group
    text = format_error(outer, redact)
    assert not [line for line in text.splitlines() if line.lstrip(" |+-").startswith("2026-01-01")]
    assert "s3cr3t" not in text
    assert "QQQ111" not in text
    assert tap.name


def test_json_log_lines_stay_valid_and_show_no_secret(log):
    tap = QuietTap(config={"k": "12345678"})
    extra = {"token": "abc", "figures": {"n": 12, "password": 5}, "stream_name": "s"}
    line = log(StructuredFormatter(), 'said "%s" and "token":5', HOSTILE, extra=extra)
    parsed = json.loads(line)
    assert "\n" not in parsed["message"]
    assert parsed["extra"]["figures"] == {"n": 12, "password": "***"}
    assert parsed["extra"]["token"] == "***"
    assert tap.name


def test_objects_in_json_log_lines_show_no_secret(log):
    """SEC5: libraries pass errors, paths and other objects to loggers."""
    tap = QuietTap(config={"password": "cAnary-QQQ111", "account_key": 87654321})
    text = "is cAnary-QQQ111"
    extra = {"url": Path(text), "error": ValueError(text), "body": text.encode(), "names": {text}}
    extra |= {"number": 87654321, "more": [{text: 87654321.0, "other": 8765}], "stream_name": text}
    parsed = json.loads(log(StructuredFormatter(), "said", extra=extra))
    assert "QQQ111" not in str(parsed)
    assert parsed["extra"]["error"] == parsed["extra"]["url"] == parsed["stream_name"] == "is ***"
    assert parsed["extra"]["number"] == "***"
    assert parsed["extra"]["more"] == [{"is ***": "***", "other": 8765}]
    assert tap.name


class Broken:
    def __str__(self):
        raise RuntimeError("cAnary-QQQ111")


@pytest.mark.parametrize("args", [("cAnary-QQQ111",), (Broken(),)])
@pytest.mark.parametrize(
    "formatter",
    [
        ConsoleFormatter(),
        StructuredFormatter(),
        logging.Formatter("%(message)s"),
        RedactingFormatter(logging.Formatter("%(message)s %(missing)s")),
    ],
)
def test_invalid_log_arguments_are_not_printed_by_logging(log, capfd, formatter, args):
    tap = QuietTap(config={"k": "cAnary-QQQ111"})
    text = log(formatter, "a number %d", *args)
    captured = capfd.readouterr()
    assert "cAnary" not in text + captured.err + captured.out
    assert "a number %d" in text
    assert tap.name


PROGRAM = """
import atexit, logging, sys, threading, json
from tap_core.logging import setup_console_logging
from tests.redaction.test_log import QuietTap
setup_console_logging("DEBUG")
tap = QuietTap(config={"k": "cAnary-QQQ111"})
logging.getLogger("any").debug("x %s", "cAnary-QQQ111", extra={"more": "cAnary-QQQ111"})
try:
    raise ValueError("cAnary-QQQ111\\nFORGED \\x1b[31m")
except ValueError:
    logging.getLogger("any").exception("failed")
def work():
    raise RuntimeError("thread cAnary-QQQ111 \\x1b[1m")
thread = threading.Thread(target=work); thread.start(); thread.join()
class Connection:
    def __del__(self):
        raise OSError("closing cAnary-QQQ111 \\x1b[1m")
Connection()
def stop():
    raise EOFError("stopping cAnary-QQQ111")
atexit.register(stop)
raise KeyError("end cAnary-QQQ111")
"""
OTHERS_FORMATTER = """
import logging
class Theirs(logging.Formatter):
    def format(self, record):
        text = f"THEIRS {record.msg} {record.args} {record.more if hasattr(record, 'more') else ''}"
        return text + (self.formatException(record.exc_info) if record.exc_info else "")
"""


@pytest.mark.parametrize("formatter", [None, "theirs.Theirs", "logging.Formatter"])
def test_redaction_applies_to_user_log_configuration_and_uncaught_errors(tmp_path, formatter):
    """SEC5: tracebacks show no secret, also those of threads, finalizers and exit functions."""
    (tmp_path / "theirs.py").write_text(OTHERS_FORMATTER)
    config = {
        "version": 1,
        "formatters": {"f": {"()": formatter or "tap_core.logging.ConsoleFormatter"}},
        "handlers": {"h": {"class": "logging.StreamHandler", "formatter": "f"}},
        "root": {"handlers": ["h"], "level": "DEBUG"},
    }
    (tmp_path / "log.json").write_text(json.dumps(config))
    variables = {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    if formatter:
        variables["SINGER_SDK_LOG_CONFIG"] = str(tmp_path / "log.json")
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **variables},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert process.returncode == 1
    assert "cAnary" not in process.stderr + process.stdout
    assert "KeyError: 'end ***'" in process.stderr
    assert "RuntimeError: thread ***" in process.stderr
    assert "OSError: closing ***" in process.stderr
    assert "EOFError: stopping ***" in process.stderr
    assert "\x1b" not in process.stderr
