"""Helper functions for an author's tests, and deprecated standard tests.

Names and signatures are those of singer_sdk (version 0.54). All output of a tap or target is kept
in memory, so the functions are suitable only for small amounts of data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from tap_core.singerlib.catalog import Catalog
from tap_core.testing.capture import TextBuffer, capture_output

if TYPE_CHECKING:
    from tap_core.streams import Stream
    from tap_core.tap_base import Tap
    from tap_core.target_base import Target

__all__ = [
    "get_standard_tap_tests",
    "get_standard_target_tests",
    "sync_end_to_end",
    "tap_sync_test",
    "tap_to_target_sync_test",
    "target_sync_test",
]


def get_standard_tap_tests(
    tap_class: type[Tap], config: Mapping[str, Any] | None = None
) -> list[Callable[[], None]]:
    """Return six test functions of a tap, to be called without arguments.

    They test the command-line output, discovery and one record per stream, and check that the
    schemas declare all keys.

    Deprecated: use `tap_core.testing.get_tap_test_class`, which also tests the records.

    Args:
        tap_class: Class of the tap.
        config: Configuration of the tap.
    """
    new_tap = partial(tap_class, config=config, parse_env_config=True)

    def _test_cli_prints() -> None:
        tap = new_tap()
        tap.print_version()
        tap.print_about()
        tap.print_about(output_format="json")

    def _test_discovery() -> None:
        new_tap(catalog=_get_tap_catalog(tap_class, config))

    def _test_stream_connections() -> None:
        new_tap().run_connection_test()

    def _test_pkeys_in_schema() -> None:
        _check_keys(new_tap(), "primary_key", lambda stream: stream.primary_keys or ())

    def _test_state_partitioning_keys_in_schema() -> None:
        _check_keys(
            new_tap(),
            "state_partitioning_key",
            lambda stream: stream.state_partitioning_keys or (),
        )

    def _test_replication_keys_in_schema() -> None:
        _check_keys(
            new_tap(),
            "replication_key",
            lambda stream: () if stream.replication_key is None else (stream.replication_key,),
        )

    return [
        _test_cli_prints,
        _test_discovery,
        _test_stream_connections,
        _test_pkeys_in_schema,
        _test_state_partitioning_keys_in_schema,
        _test_replication_keys_in_schema,
    ]


def get_standard_target_tests(
    target_class: type[Target],  # noqa: ARG001  singer_sdk's signature
    config: Mapping[str, Any] | None = None,  # noqa: ARG001
) -> list[Callable[[], None]]:
    """Return an empty list, as singer_sdk does.

    Deprecated: use `tap_core.testing.get_target_test_class`.
    """
    return []


def tap_sync_test(tap: Tap) -> tuple[TextBuffer, TextBuffer]:
    """Sync all streams of a tap and capture its output.

    Returns:
        The tap's standard output and standard error.
    """
    return capture_output(tap.sync_all)


def target_sync_test(
    target: Target,
    input: IO[str] | None,
    *,
    finalize: bool = True,
) -> tuple[TextBuffer, TextBuffer]:
    """Send messages to a target and capture its output.

    Args:
        target: The target.
        input: Messages, one per line; None for no messages.
        finalize: True to signal the end of the input, so that the target loads buffered records.
            False to omit that signal.

    Returns:
        The target's standard output and standard error.
    """

    def run() -> None:
        if input is not None:
            target.process_lines(input)
        if finalize:
            target.process_endofpipe()

    return capture_output(run)


def tap_to_target_sync_test(
    tap: Tap, target: Target
) -> tuple[TextBuffer, TextBuffer, TextBuffer, TextBuffer]:
    """Sync a tap, and load its messages into a target.

    Returns:
        The standard output and standard error of the tap, then those of the target.
    """
    tap_out, tap_err = tap_sync_test(tap)
    target_out, target_err = target_sync_test(target, tap_out)
    tap_out.seek(0)
    return tap_out, tap_err, target_out, target_err


def sync_end_to_end(tap: Tap, target: Target, *mappers: Any) -> None:
    """Sync a tap, pass its messages through mappers, and load the result into a target.

    Args:
        tap: The tap.
        target: The target.
        mappers: Mappers, in the order of use.
    """
    messages, _ = capture_output(tap.sync_all)
    for mapper in mappers:
        messages, _ = capture_output(partial(mapper.listen, messages))
    target.listen(messages)


def _get_tap_catalog(
    tap_class: type[Tap], config: Mapping[str, Any] | None, *, select_all: bool = False
) -> dict[str, Any]:
    """Run discovery with a new tap, and return its catalog as a dict.

    If ``select_all`` is True, every stream in the catalog is selected.
    """
    tap = tap_class(config=config, parse_env_config=True)
    tap.run_discovery()
    return _select_all(tap.catalog_dict) if select_all else tap.catalog_dict


def _select_all(catalog_dict: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a catalog with every stream selected."""
    catalog = Catalog.from_dict(catalog_dict)
    for entry in catalog.streams:
        entry.metadata.root.selected = True
    return dict(catalog.to_dict())


def _check_keys(tap: Tap, role: str, get_keys: Callable[[Stream], Iterable[str]]) -> None:
    """Raise AssertionError if the schema of a stream does not declare one of the stream's keys.

    ``get_keys`` returns the keys of a stream, and ``role`` is their name in the error message, such
    as ``primary_key``.
    """
    for name, stream in tap.streams.items():
        properties = stream.schema["properties"]
        for key in get_keys(stream):
            if key not in properties:
                raise AssertionError(
                    f"Coding error in stream '{name}': {role} '{key}' is missing in schema,"
                    f" which has {', '.join(properties) or 'no property'}."
                )
