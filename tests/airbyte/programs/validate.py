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


def faults(line: bytes) -> Iterator[str]:
    """Yield the errors of one line."""
    try:
        # Strict: no text is taken for a number. Its floats may be written without a point.
        message = AirbyteMessage.model_validate_json(line, strict=True)
    except ValidationError as error:
        for one in error.errors(include_url=False):
            yield f"{'.'.join(map(str, one['loc']))}: {one['msg']}"
    else:
        yield from unknown(message, "")


def unknown(model: BaseModel, place: str) -> Iterator[str]:
    """Yield the properties that are in no model, except the contents of a state."""
    for name in model.model_extra or ():
        yield f"{place}{name}: no such property"
    for name, value in model:
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, BaseModel) and not isinstance(one, AirbyteStateBlob):
                yield from unknown(one, f"{place}{name}.")


def main() -> None:
    """Read standard input to its end."""
    for number, line in enumerate(sys.stdin.buffer):
        found_faults: list[Any] = list(faults(line))
        if found_faults:
            print(json.dumps({"line": number, "faults": found_faults}))


if __name__ == "__main__":
    main()
