"""Readers of Singer messages and their base class, for targets with a custom input format.

Names, signatures and errors are those of singer_sdk. A target that uses one of these readers
unmodified reads with the faster `SingerReader` instead. A subclass reads line by line and passes
each message to a callback of the target.
"""

from __future__ import annotations

import abc
import logging
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import IO, Any, Generic, TypeVar

import msgspec

from tap_core.exceptions import InvalidInputLine
from tap_core.redaction.row_values import show_value
from tap_core.singerlib.json import load_json

__all__ = [
    "GenericSingerReader",
    "MsgSpecReader",
    "SimpleSingerReader",
    "dec_hook",
    "decoder",
    "is_default_reader",
]

_Line = TypeVar("_Line", str, bytes)

logger: logging.Logger = logging.getLogger(__name__)


class GenericSingerReader(abc.ABC, Generic[_Line]):
    """Abstract reader of Singer messages, one per line. Subclass it for a custom input format."""

    def __init__(self) -> None:
        super().__init__()
        self._current_message: _Line | None = None

    def process_lines(
        self,
        file_input: IO[_Line] | None,
        callbacks: Mapping[str, Callable[[dict[str, Any]], None]],
    ) -> Counter[str]:
        """Read the messages in a file and pass each one to the callback for its type.

        Args:
            file_input: File with one message per line; None to read `default_input`.
            callbacks: Functions that process a message, by message type.

        Returns:
            The number of messages by type.

        Raises:
            InvalidInputLine: A line is not a message.
            ValueError: The type of a message is unknown.
        """
        counts: Counter[str] = Counter()
        for line in file_input or self.default_input:
            self._current_message = line
            message = self.deserialize_json(line)
            self.assert_line_requires(message, requires={"type"})
            callback = callbacks.get(message["type"], self._process_unknown_message)
            callback(message)
            counts[message["type"]] += 1
        return counts

    @property
    @abc.abstractmethod
    def default_input(self) -> IO[_Line]:
        """The file that `process_lines` reads by default."""

    @staticmethod
    def assert_line_requires(line_dict: dict[str, Any], requires: set[str]) -> None:
        """Check that a message has the required keys.

        Raises:
            InvalidInputLine: A key is missing.
        """
        missing = requires - line_dict.keys()
        if missing:
            names = ", ".join(sorted(missing))
            raise InvalidInputLine(
                f"Line is missing required {names} key(s): {show_value(line_dict)}"
            )

    @abc.abstractmethod
    def deserialize_json(self, line: _Line) -> dict[str, Any]:
        """Parse one line of the input to a message, such as ``{"type": "STATE", "value": {}}``."""

    def _process_unknown_message(self, message_dict: dict[str, Any]) -> None:
        raise ValueError(f"Unknown message type '{message_dict['type']}' in message.")


class SimpleSingerReader(GenericSingerReader[str]):
    """Reader of Singer messages from text lines. Numbers with a fraction become `Decimal`."""

    @property
    def default_input(self) -> IO[str]:
        """Standard input, as text."""
        return sys.stdin

    def deserialize_json(self, line: str) -> dict[str, Any]:
        """Parse one line of JSON to a message.

        Raises:
            InvalidInputLine: The line is not JSON.
        """
        try:
            message: dict[str, Any] = load_json(line)
        except ValueError as error:
            raise _make_parse_error(line) from error
        return message


def dec_hook(type: type, obj: Any) -> Any:  # noqa: ARG001  msgspec's signature
    """Convert a value to a string. msgspec calls this while decoding a type it does not support."""
    return str(obj)


decoder = msgspec.json.Decoder(dec_hook=dec_hook, float_hook=Decimal)


class MsgSpecReader(SimpleSingerReader):
    """Reader of Singer messages that uses msgspec. Numbers with a fraction become `Decimal`."""

    def deserialize_json(self, line: str) -> dict[str, Any]:
        """Parse one line of JSON to a message.

        Raises:
            InvalidInputLine: The line is not JSON.
        """
        try:
            message: dict[str, Any] = decoder.decode(line)
        except (msgspec.MsgspecError, RecursionError, InvalidOperation) as error:
            raise _make_parse_error(line) from error
        return message


def _make_parse_error(line: str) -> InvalidInputLine:
    text = show_value(line)
    logger.error("Unable to parse:\n%s", text)
    return InvalidInputLine(f"Unable to parse line as JSON: {text}")


def is_default_reader(reader: Any) -> bool:
    """Return True if a target's message reader is an unmodified reader of the SDK.

    The target can then use the faster `SingerReader` instead.
    """
    return type(reader) in {SimpleSingerReader, MsgSpecReader} and vars(reader).keys() <= {
        "_current_message"
    }
