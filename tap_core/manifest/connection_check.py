"""Connection check of a manifest: its component ``check``, and the streams that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tap_core.exceptions import ConfigurationError
from tap_core.manifest.builder import build_component
from tap_core.manifest.components.declarative_source import (
    CheckDynamicStream,
    CheckStream,
    DynamicStreamCheckConfig,
)
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.loader import get_dynamic_stream_names
from tap_core.manifest.nodes import iterate_nodes
from tap_core.sync.connection_test import read_one_record
from tap_core.tap_base import Tap

if TYPE_CHECKING:
    from tap_core.manifest.loader import Manifest

__all__ = ["check_manifest_connection"]


def check_manifest_connection(tap: Any) -> None:
    """Read one record of each stream that the manifest's ``check`` names.

    ``tap`` is a `ManifestTap`. During the check, ``config_overrides`` of ``check`` replace settings
    of the tap's config.

    Raises:
        ConfigurationError: The check names an unknown stream, or there are no streams.
        ManifestError: The check is invalid.
    """
    node = tap.manifest.tree.get("check")
    check = build_component(tap.manifest, node, CheckStream | CheckDynamicStream, tap.config)
    if check is not None and check.config_overrides:
        _reject_stored_config(tap.manifest)
        tap.logger.info("Settings for the check only: %s", ", ".join(check.config_overrides))
        config = {**tap.config, **check.config_overrides}
        tap = type(tap)(config=config, validate_config=False, setup_mapper=False)
    if isinstance(check, CheckDynamicStream):
        _read_first_streams(tap, check)
    elif check and (check.stream_names is not None or check.dynamic_streams_check_configs):
        _read_named_streams(tap, check)
    else:
        Tap.check_connection(tap)


def _reject_stored_config(manifest: Manifest) -> None:
    """Raise ManifestError if an authenticator of the manifest stores new tokens in the config.

    It would also store the ``config_overrides``, which are only for the connection check.
    """
    for part in iterate_nodes(manifest.tree):
        if part.get("refresh_token_updater") is not None:
            raise ManifestError(
                "`config_overrides` cannot be used together with a `refresh_token_updater`, which"
                " stores the config: remove one of them.",
                place=manifest.format_place(part.line, part.path),
            )


def _read_named_streams(tap: Any, check: CheckStream) -> None:
    """Read one record of each stream that the check names.

    Raises:
        ConfigurationError: A stream is unknown.
    """
    names = check.stream_names or []
    template_checks = check.dynamic_streams_check_configs
    if not names and not template_checks:
        tap.logger.warning("The connection check names no streams: no request was made.")
    if not template_checks and _read_declared(tap, names):
        return
    for name in [*names, *_find_template_stream_names(tap, template_checks)]:
        if name not in tap.streams:
            raise ConfigurationError(
                f"The manifest's check names an unknown stream '{name}'. Known are"
                f" {', '.join(map(repr, tap.streams))}."
            )
        read_one_record(tap.streams[name])


def _read_first_streams(tap: Any, check: CheckDynamicStream) -> None:
    """Read one record from each of the first ``stream_count`` streams of the manifest.

    If ``use_check_availability`` is false, read nothing.

    Raises:
        ConfigurationError: There are no streams.
    """
    if not tap.streams:
        raise ConfigurationError(
            "There are no streams: neither the config nor the API defines one."
        )
    if check.use_check_availability:
        generated = [stream.name for _, stream in tap.template_streams]
        names = [*(stream.name for stream in tap.declared_streams), *generated]
        for name in names[: max(0, check.stream_count)]:
            read_one_record(tap.streams[name])


def _read_declared(tap: Any, names: Sequence[str]) -> bool:
    """Read one record of each named stream, unless one of them comes from a stream template.

    Returns:
        True if the streams were read; False if a stream template is needed. Nothing is read then.
    """
    streams = tap.declared_streams if tap.dynamic_catalog else []
    declared = {stream.name: stream for stream in streams}
    if not declared.keys() >= set(names):
        return False
    parents = (name for stream in declared.values() for name in stream.components.parent_names)
    with tap.shared.caching_parents(parents):
        for name in names:
            read_one_record(declared[name])
    return True


def _find_template_stream_names(
    tap: Any, check_configs: Sequence[DynamicStreamCheckConfig]
) -> Iterator[str]:
    """Yield the names of the streams from stream templates that the connection check reads.

    Raises:
        ConfigurationError: The check names an unknown dynamic stream.
    """
    templates = dict.fromkeys(get_dynamic_stream_names(tap.manifest.dynamic_streams))
    for check in check_configs:
        if check.dynamic_stream_name not in templates:
            raise ConfigurationError(
                "The manifest's check names an unknown dynamic stream"
                f" '{check.dynamic_stream_name}'. Known are {', '.join(map(repr, templates))}."
            )
        names = [
            stream.name
            for template, stream in tap.template_streams
            if template == check.dynamic_stream_name
        ]
        yield from names[: check.stream_count]
