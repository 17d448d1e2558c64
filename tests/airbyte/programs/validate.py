"""Validates lines of standard input with the published models of the Airbyte protocol.

The interpreter of the peer `airbyte_models`, which has the models, runs it. It reads one message
per line and writes one JSON object per invalid line, with the line's number from 0 and its errors.
The models accept unknown properties, as the protocol requires of readers; a writer has no reason to
send one, so they are reported as errors.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from airbyte_protocol.models import AirbyteMessage, AirbyteStateBlob
from pydantic import BaseModel, ValidationError


def list_errors(line: bytes) -> Iterator[str]:
    """Yield the errors of one line."""
    try:
        # Strict: no text is taken for a number. Its floats may be written without a point.
        message = AirbyteMessage.model_validate_json(line, strict=True)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            yield f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}"
    else:
        yield from list_unknown_properties(message, "")


def list_unknown_properties(model: BaseModel, path: str) -> Iterator[str]:
    """Yield the properties that are in no model, except the contents of a state."""
    for name in model.model_extra or ():
        yield f"{path}{name}: no such property"
    for name, value in model:
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, BaseModel) and not isinstance(child, AirbyteStateBlob):
                yield from list_unknown_properties(child, f"{path}{name}.")


def main() -> None:
    """Read standard input to its end."""
    for number, line in enumerate(sys.stdin.buffer):
        found_faults: list[Any] = list(list_errors(line))
        if found_faults:
            print(json.dumps({"line": number, "faults": found_faults}))


if __name__ == "__main__":
    main()
