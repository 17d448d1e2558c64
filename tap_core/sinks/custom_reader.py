"""Reading with a message reader that an author provides, until its input ends or a signal comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tap_core.sinks.signal_handling import TerminationSignals

__all__ = ["run_custom_reader"]


class _Stopped(Exception):  # noqa: N818  nothing went wrong
    """Raised to end the author's reader."""


def run_custom_reader(
    reader: Any,
    file_input: Any | None,
    callbacks: Mapping[str, Callable[[dict[str, Any]], None]],
    signals: TerminationSignals,
    after_each: Callable[[], None] = lambda: None,
) -> Counter[str]:
    """Run an author's reader; return the number of messages by type.

    The result is empty if a termination signal ended the reader.

    Args:
        reader: Object with ``process_lines(file_input, callbacks)``, as in singer_sdk.
        file_input: Input for the reader; None for its default.
        callbacks: Function to call for each message type.
        signals: Termination signals, which end the reader between two messages.
        after_each: Called after each message.
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
            found: Counter[str] = reader.process_lines(
                file_input, {kind: stopping_after(each) for kind, each in callbacks.items()}
            )
        except _Stopped:
            return Counter()
    return found
