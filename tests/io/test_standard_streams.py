"""Programs whose standard input or output is closed, on a full disk, or not UTF-8."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tap_core.io.standard_streams import write_every_character

ROOT = Path(__file__).parents[2]
CLOSED = "The standard output is closed."
FULL = "cannot be written: No space left on device."

TAP = """
from tap_core import Stream, Tap

class Numbers(Stream):
    name = "numbers"
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}

    def get_records(self, context):
        yield {"id": 1}

class TapNumbers(Tap):
    name = "tap-numbers"
    config_jsonschema = {"type": "object", "properties": {}}

    def discover_streams(self):
        return [Numbers(self)]

TapNumbers.cli()
"""


def run(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command line of the shell, in which the first `tap` is the program."""
    (folder / "tap.py").write_text(TAP)
    return run_shell(folder, command.replace("tap", f"{sys.executable} tap.py", 1))


def run_shell(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command line of the shell."""
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("tap >&-", "Standard output cannot be written: Bad file descriptor."),
        ("tap --discover >&-", CLOSED),
        ("tap --about --format=json >&-", CLOSED),
        ("tap test-stream numbers >&-", CLOSED),
        ("tap --discover >/dev/full", FULL),
        ("tap --version >/dev/full", FULL),
        ("tap spec >/dev/full", "Standard output cannot be written: No space left on device."),
    ],
)
def test_standard_output_that_cannot_be_written_is_an_error_of_one_line(
    tmp_path: Path, command: str, message: str
) -> None:
    process = run(tmp_path, command)
    assert process.returncode == 1
    assert message in process.stderr
    assert "Traceback" not in process.stderr
    assert "Exception ignored" not in process.stderr


MANIFEST = """
version: 6.44.0
type: DeclarativeSource
check: {type: CheckStream, stream_names: [users]}
streams: []
"""


@pytest.mark.parametrize(
    ("module", "arguments", "message"),
    [
        ("tap_core.manifest.cli", "lint manifest.yaml >/dev/full", FULL),
        ("tap_core.manifest.cli", "lint manifest.yaml >&-", CLOSED),
        ("tap_core.cli", "--help >/dev/full", FULL),
    ],
)
def test_programs_report_an_output_that_cannot_be_written(
    tmp_path: Path, module: str, arguments: str, message: str
) -> None:
    (tmp_path / "manifest.yaml").write_text(MANIFEST)
    code = f"import sys; from {module} import main; sys.exit(main())"
    process = run_shell(tmp_path, f"{sys.executable} -c '{code}' {arguments}")
    assert process.returncode == 1
    assert message in process.stderr
    assert "Traceback" not in process.stderr


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_catalog_in_a_file_is_utf8_whatever_the_encoding_of_the_locale(
    tmp_path: Path, encoding: str
) -> None:
    """Otherwise it could not be written, or not be read again as JSON."""
    (tmp_path / "tap.py").write_text(TAP.replace('"numbers"', '"größe"').replace('"id"', '"日"'))
    command = [sys.executable, "tap.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding}
    for arguments in (["--discover"], ["test-stream", "größe"]):
        process = subprocess.run(
            [*command, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            check=False,
            timeout=120,
        )
        assert process.returncode == 0, process.stderr.decode()
        assert "größe" in process.stdout.decode("utf-8")
        assert "日" in process.stdout.decode("utf-8")


def test_terminal_keeps_its_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    output = io.BytesIO()
    terminal = Terminal(output, encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", terminal)
    write_every_character()
    print("größe 日")
    terminal.flush()
    assert output.getvalue() == b"gr\xf6\xdfe \\u65e5\n"


def test_full_disk_below_a_file_of_the_plugin_is_an_error_of_one_line(tmp_path: Path) -> None:
    """The system does not name the file, which may be any that the code of a tap or sink writes."""
    (tmp_path / "plugin.py").write_text(
        "from tap_core.io.standard_streams import report_output_errors\n"
        "with report_output_errors(), open('/dev/full', 'w') as file:\n"
        "    file.write('row')\n"
    )
    process = run(tmp_path, f"{sys.executable} plugin.py")
    assert process.returncode == 1
    assert process.stderr == f"Standard output or a file {FULL}\n"


def test_closed_standard_input_is_empty(tmp_path: Path) -> None:
    process = run(tmp_path, "tap --catalog - <&-")
    assert process.returncode == 1
    assert "Catalog" in process.stderr
    assert "Traceback" not in process.stderr


def test_file_does_not_get_the_descriptor_of_closed_standard_output(tmp_path: Path) -> None:
    """A state would be written into that file."""
    command = f"{sys.executable} -m target_spark --config target.json < messages.jsonl >&-"
    (tmp_path / "target.json").write_text('{"path": "lake", "small_batches": "delta-rs"}')
    (tmp_path / "messages.jsonl").write_text('{"type": "STATE", "value": 1}\n')
    process = run(tmp_path, command)
    assert process.returncode == 1
    assert "The standard output is closed, so no state can be emitted." in process.stderr


def test_child_process_inherits_the_standard_streams_that_replace_closed_ones(
    tmp_path: Path,
) -> None:
    """Otherwise its first files would get their descriptors, and its messages."""
    (tmp_path / "parent.py").write_text(
        "import subprocess\n"
        "from tap_core.io.standard_streams import open_closed_streams\n"
        "open_closed_streams()\n"
        "subprocess.run(['/bin/sh', '-c', ': > opened; for n in 0 1 2;"
        " do test -e /dev/fd/$n && echo $n >> opened; done'])\n"
    )
    run(tmp_path, f"{sys.executable} parent.py <&- >&- 2>&-")
    assert (tmp_path / "opened").read_text().split() == ["0", "1", "2"]
