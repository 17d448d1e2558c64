"""Support for a message reader that the developer of a target wrote to replace the SDK's reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tap_core.sinks.signal_handling import TerminationSignals

__all__ = ["run_custom_reader"]


class _Stopped(Exception):  # noqa: N818  nothing went wrong
    """Signal to end a custom message reader between two messages, after a termination signal."""


def run_custom_reader(
    reader: Any,
    file_input: Any | None,
    callbacks: Mapping[str, Callable[[dict[str, Any]], None]],
    signals: TerminationSignals,
    after_each: Callable[[], None] = lambda: None,
) -> Counter[str]:
    """Read a target's input with a message reader that the target's developer has written.

    Args:
        reader: Object with ``process_lines(file_input, callbacks)``, as in singer_sdk.
        file_input: Input for the reader; None for its default input.
        callbacks: Function to call with each message, by message type.
        signals: Termination signals of the target. After a signal, reading ends between two
            messages.
        after_each: Called after each message.

    Returns:
        The number of messages by type; empty if a signal ended the reader.
    """

    def stopping_after(callback: Callable[[dict[str, Any]], None]) -> Callable[[Any], None]:
        def call(message: dict[str, Any]) -> None:
            callback(message)
            after_each()
            if signals.received:
                raise _Stopped

        return call

    with signals.deferred():
        try:
            counts: Counter[str] = reader.process_lines(
                file_input, {kind: stopping_after(each) for kind, each in callbacks.items()}
            )
        except _Stopped:
            return Counter()
    return counts
