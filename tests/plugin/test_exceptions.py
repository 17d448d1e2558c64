"""Exceptions: their class tree is that of singer_sdk and of the module's docstring."""

from __future__ import annotations

import json
import subprocess

import pytest

from tap_core import exceptions
from tests.peers import missing_reason, peer_python

PEER = peer_python("singer_sdk")

PROGRAM = """
import json
from singer_sdk import exceptions as e
print(json.dumps({n: [c.__name__ for c in getattr(e, n).__mro__] for n in e.__all__}))
"""


@pytest.mark.peer
@pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk"))
def test_exception_names_and_base_classes_are_those_of_singer_sdk():
    process = subprocess.run([str(PEER), "-c", PROGRAM], check=True, capture_output=True, text=True)
    for name, parents in json.loads(process.stdout).items():
        ours = [error_class.__name__ for error_class in getattr(exceptions, name).__mro__]
        assert ours == parents, name


def test_exception_tree_in_the_docstring_is_correct():
    text = exceptions.__doc__ or ""
    drawing = text[text.index("    SingerSDKError") :]
    path: list[tuple[int, str]] = []
    tree = {}
    for line in drawing.splitlines():
        parts = line.lstrip("│├└─ ").split()
        if not parts:
            continue
        name, depth = parts[0].rstrip(","), len(line) - len(line.lstrip("│├└─ "))
        if isinstance(getattr(exceptions, name, None), type) and not name.endswith("Warning"):
            path = [step for step in path if step[0] < depth]
            tree[name] = path[-1][1] if path else None
            path.append((depth, name))
    for name, parent in tree.items():
        cls = getattr(exceptions, name)
        assert (cls.__mro__[1].__name__ == parent) or (
            parent is None and cls.__mro__[1] is Exception
        )
    errors = {
        name for name in exceptions.__all__ if not issubclass(getattr(exceptions, name), Warning)
    }
    assert errors - set(tree) == {"UnsupportedOpenAPISpec"}


def test_exceptions_have_the_attributes_that_handlers_need():
    response = object()
    assert exceptions.RetriableAPIError("m", response).response is response
    assert exceptions.RetriableAPIError("m").response is None
    record = {"id": 1}
    invalid = exceptions.InvalidRecord("bad", record)
    assert (invalid.error_message, invalid.record) == ("bad", record)
    assert str(invalid) == "Record Message Validation Error: bad"
    fault = exceptions.ConfigValidationError("m", errors=["a"], schema={"x": 1})
    assert (str(fault), fault.errors, fault.schema) == ("m", ["a"], {"x": 1})
    assert exceptions.ConfigValidationError("m").errors == []
    assert "setup_mapper()" in str(exceptions.MapperNotInitialized())
    assert exceptions.EmptySchemaTypeError("more").args[1] == "more"
