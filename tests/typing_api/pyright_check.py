"""Check a folder of modules with pyright, as an editor does."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

__all__ = ["check_folder"]

ROOT = Path(__file__).resolve().parents[2]
PYRIGHT = Path(sysconfig.get_path("scripts")) / "basedpyright"


def check_folder(folder: Path, mode: str) -> list[dict[str, Any]]:
    """Return pyright's messages about the modules in a folder, under a mode such as ``strict``."""
    settings = {"extraPaths": [str(ROOT)], "typeCheckingMode": mode, "pythonVersion": "3.10"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    process = subprocess.run(
        [PYRIGHT, "--pythonpath", sys.executable, "--outputjson"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(process.stdout)
    assert report["summary"]["filesAnalyzed"] == len(list(folder.glob("*.py")))
    messages: list[dict[str, Any]] = report["generalDiagnostics"]
    return messages
