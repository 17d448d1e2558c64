"""Types of msgspec are compiled when their module is imported, never by the threads of a run.

msgspec 0.22 crashes with a segmentation fault if two threads use a `Struct` or `NamedTuple` type
for the first time at the same moment. A decoder of a module is made under the lock of the import.
"""

from __future__ import annotations

import ast
import subprocess
import sys

from tests.code_rules.source_files import ROOT, read_modules

BUILTIN = {"str", "bytes", "int", "float", "bool", "dict", "list"}

FIRST_USE = """
import sys, threading
from pathlib import Path
from target_spark.tables.iceberg_metadata import read_metadata

folder = Path(sys.argv[1])
barrier = threading.Barrier(4)

def read():
    barrier.wait()
    assert read_metadata(folder).current_snapshot_id == 7

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=read) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def is_decode_with_a_type(node: ast.AST) -> bool:
    """Return True for a call such as ``msgspec.json.decode(data, type=Message)``."""
    if not isinstance(node, ast.Call) or not ast.unparse(node.func).startswith("msgspec."):
        return False
    types = [ast.unparse(word.value) for word in node.keywords if word.arg == "type"]
    return ast.unparse(node.func) == "msgspec.convert" or bool(set(types) - BUILTIN)


def test_no_function_decodes_with_a_type_of_its_module() -> None:
    calls = [
        f"{module.path.relative_to(ROOT)}:{node.lineno}"
        for module in read_modules()
        for node in module.nodes
        if is_decode_with_a_type(node)
    ]
    assert calls == [], "make a msgspec.json.Decoder at module level and call its decode()"


def test_decode_with_a_type_is_found() -> None:
    [call] = ast.parse("msgspec.json.decode(line, type=Message)").body
    assert is_decode_with_a_type(call.value)
    [call] = ast.parse("msgspec.json.decode(line, type=str)").body
    assert not is_decode_with_a_type(call.value)


def test_threads_may_read_iceberg_metadata_for_the_first_time_at_once(tmp_path) -> None:
    metadata = tmp_path / "metadata"
    metadata.mkdir()
    (metadata / "v1.metadata.json").write_text(
        '{"table-uuid": "t", "current-snapshot-id": 7,'
        ' "snapshots": [{"snapshot-id": 7, "summary": {"operation": "append"}}]}'
    )
    (metadata / "version-hint.text").write_text("1")
    for _ in range(5):
        program = [sys.executable, "-c", FIRST_USE, str(tmp_path)]
        process = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
        assert process.returncode == 0, process.stderr
