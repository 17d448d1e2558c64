"""tap_core's targets and sinks have the public names and signatures of singer_sdk."""

from __future__ import annotations

import inspect
import json
import subprocess
from importlib import import_module

import pytest

from tests.peers import missing_reason, peer_python

PEER = peer_python("singer_sdk")

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk")),
]

CLASSES = [
    "target_base.Target",
    "sinks.Sink",
    "sinks.BatchSink",
    "sinks.RecordSink",
    "sinks.core.JSONSchemaValidator",
    "sinks.core.BaseJSONSchemaValidator",
    "sinks.core.DatetimeErrorTreatmentEnum",
]
UNSUPPORTED = {
    # The command line is in `tap_core.protocols`: these are callbacks of click and its entry point.
    "cb_config",
    "cb_version",
    "invoke",
    "instantiate_processor",
    # Version helpers that PluginBase implements in another way.
    "_get_package_version",
    "_get_supported_python_versions",
    "_abc_impl",
}
WIDER = {"listen", "process_lines"}
"""Methods that also accept binary files, unlike singer_sdk's."""

PROGRAM = """
import importlib, inspect, json, sys
found = {}
for path in sys.argv[1:]:
    module, _, name = path.rpartition(".")
    kind = getattr(importlib.import_module("singer_sdk." + module), name)
    found[path] = {
        each: list(inspect.signature(inspect.getattr_static(kind, each)).parameters)
        if inspect.isfunction(inspect.getattr_static(kind, each)) else None
        for each in dir(kind) if not each.startswith("__") or each == "__init__"
    }
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def theirs():
    process = subprocess.run(
        [str(PEER), "-W", "ignore", "-c", PROGRAM, *CLASSES], capture_output=True, check=True
    )
    return json.loads(process.stdout)


@pytest.mark.parametrize("path", CLASSES)
def test_classes_have_the_names_and_signatures_of_singer_sdk(theirs, path):
    module, _, name = path.rpartition(".")
    ours = getattr(import_module(f"tap_core.{module}"), name)
    assert theirs[path].keys() - UNSUPPORTED <= set(dir(ours))
    for member, parameters in theirs[path].items():
        if parameters is None or member in UNSUPPORTED | WIDER:
            continue
        own_parameters = list(inspect.signature(getattr(ours, member)).parameters)
        assert own_parameters == parameters, member
