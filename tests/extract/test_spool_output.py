"""SpoolOutput: the kept and dropped lines of one task, in a folder or in memory blocks."""

from __future__ import annotations

import os
import resource
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from target_spark.extract.forked_process import run_in_fork
from target_spark.extract.spool_output import SpoolOutput, WriteFailedError, publish_files

STEPS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 2), st.integers(0, 90_000)), st.sampled_from(["keep", "drop"])
    ),
    max_size=30,
)
"""Lines as (stream, length), and steps that keep or drop the lines before them."""


class Readers:
    """Writes lines to ``folder``, or as blocks, and reads the published lines."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.lines = SpoolOutput(None if folder is None else str(folder))
        self.blocks: dict[int, bytes] = defaultdict(bytes)

    def leave(self) -> None:
        """Collect the blocks as a task does at the end of a part."""
        for stream, block in self.lines.take_blocks():
            assert block.endswith(b"\n")
            self.blocks[stream] += block

    def end(self) -> dict[int, bytes]:
        """End the task successfully and return the published lines per stream."""
        self.leave()
        self.lines.close()
        if self.folder is not None:
            written_streams = [
                int(path.name.removeprefix("stream=")) for path in self.folder.glob("*")
            ]
            publish_files(
                str(self.folder), [(stream, self.lines.name) for stream in written_streams]
            )
            for stream in written_streams:
                (file,) = self.folder.glob(f"stream={stream}/[!.]*")
                self.blocks[stream] = file.read_bytes()
        return {stream: data for stream, data in self.blocks.items() if data}


@pytest.fixture(params=["folder", "blocks"])
def readers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Readers]:
    instance = Readers(tmp_path / "rows" if request.param == "folder" else None)
    with closing(instance.lines):
        yield instance


@given(steps=STEPS, is_apart=st.booleans())
def test_published_lines_are_exactly_the_kept_lines(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int] | str], is_apart: bool
) -> None:
    """This holds for many parts, many streams, short and long lines."""
    readers = Readers(None if is_apart else tmp_path_factory.mktemp("lines") / "rows")
    expected: dict[int, bytes] = defaultdict(bytes)
    new: dict[int, bytes] = defaultdict(bytes)
    for number, step in enumerate([*steps, "drop"]):
        if isinstance(step, tuple):
            line = b"%d %s\n" % (number, b"x" * step[1])
            readers.lines.write(step[0], line)
            new[step[0]] += line
            continue
        if step == "keep":
            for stream, lines in new.items():
                expected[stream] += lines
            readers.lines.keep()
            readers.leave()
        else:
            readers.lines.drop()
        new.clear()
    assert readers.end() == {stream: lines for stream, lines in expected.items() if lines}


def test_child_process_writes_to_the_same_files(readers: Readers) -> None:
    """A child can open further files; the lines of a killed child are dropped."""

    def write_in_child(word: bytes, then: Callable[[], None] = bool) -> None:
        readers.lines.drop()
        readers.lines.share(2)

        def write() -> None:
            for stream in range(2):
                readers.lines.write(stream, b"%s of %d\n" % (word, stream))
            readers.lines.flush()
            then()

        run_in_fork(write)

    readers.lines.write(0, b"first\n")
    readers.lines.keep()
    readers.leave()
    with pytest.raises(Exception, match="SIGKILL"):
        write_in_child(b"dead", lambda: os.kill(os.getpid(), signal.SIGKILL))
    write_in_child(b"child")
    readers.lines.keep()
    readers.lines.write(1, b"last\n")
    readers.lines.keep()
    assert readers.end() == {0: b"first\nchild of 0\n", 1: b"child of 1\nlast\n"}


def test_files_are_not_visible_before_they_are_complete(tmp_path: Path) -> None:
    """Files of another attempt of the task are not visible either; only the owner may read them."""
    lost, complete = (SpoolOutput(str(tmp_path)) for _ in range(2))
    for output in (lost, complete):
        output.write(3, b"row\n")
        output.keep()
        output.close()
    assert [path.name[0] for path in tmp_path.glob("stream=3/*")] == [".", "."]
    publish_files(str(tmp_path), [(3, complete.name)])
    (file,) = tmp_path.glob("stream=3/[!.]*")
    assert file.read_bytes() == b"row\n"
    assert file.stat().st_mode & 0o777 == 0o600


def test_full_disk_does_not_count_as_a_failed_part(readers: Readers) -> None:
    """The error is not an Exception, so handlers of failed parts do not catch it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
        with pytest.raises(WriteFailedError, match="File too large"):
            readers.lines.write(0, b"x" * (1 << 17))
        assert not issubclass(WriteFailedError, Exception)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_unwritable_folder_is_named_in_the_error(tmp_path: Path) -> None:
    """The path of the folder is that of a file."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WriteFailedError, match="file"):
        SpoolOutput(str(tmp_path / "file")).write(0, b"row\n")
