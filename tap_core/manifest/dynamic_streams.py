"""Generation of all streams of a manifest's ``dynamic_streams``, with their requests and names.

This module is imported only for manifests with ``dynamic_streams``. The requests of a components
resolver are sent once per run; their responses are cached. A stream's name identifies the stream
and its state, so it must be a unique text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import requests

from tap_core.exceptions import DiscoveryError, SyncError
from tap_core.http.origins import Origin, declared_origin
from tap_core.manifest.builder import build_component
from tap_core.manifest.components.partition_routers import PartitionSlice
from tap_core.manifest.components.resolvers import DynamicDeclarativeStream, HttpComponentsResolver
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.loader import get_dynamic_stream_names
from tap_core.manifest.nodes import DataText, MappingNode, iterate_nodes
from tap_core.manifest.shared_resources import SharedResources
from tap_core.manifest.stream import ManifestStream
from tap_core.manifest.stream_templates import StreamTemplate, get_lines

if TYPE_CHECKING:
    from tap_core.types import Record

__all__ = ["generate_streams"]

_TOKEN_ENDPOINT: Final = "token_refresh_endpoint"  # noqa: S105  (an option's name)


def generate_streams(
    tap: Any, shared: SharedResources, taken: Collection[str]
) -> Iterator[tuple[str, MappingNode]]:
    """Yield the streams that all dynamic streams of the manifest generate.

    Each item is a pair: the name of the dynamic stream, and the declaration of a generated stream.
    A dynamic stream is a stream template with a source of values for it.

    Args:
        tap: The tap, for the internal streams that read from the API.
        shared: Objects that the streams of the tap share.
        taken: Names of the streams that the manifest declares without a template.

    Raises:
        DiscoveryError: The API's data cannot be read, or contains a stream name twice.
        ManifestError: A template cannot be filled, or the manifest generates a stream name twice.
    """
    manifest = shared.manifest
    seen = set(taken)
    for node, template_name in zip(
        manifest.dynamic_streams, get_dynamic_stream_names(manifest.dynamic_streams), strict=True
    ):
        declared: DynamicDeclarativeStream
        declared = build_component(manifest, node, DynamicDeclarativeStream, shared.config)
        for stream in _fill_template(tap, shared, declared, node, template_name):
            name: Any = stream.get("name")
            if (problem := _find_name_problem(stream, name)) is not None:
                place = manifest.format_place(node.line, node.path)
                raise ManifestError(f"'{template_name}' of dynamic_streams {problem}", place=place)
            is_of_api = isinstance(declared.components_resolver, HttpComponentsResolver)
            if name in seen:
                message = (
                    f"'{template_name}' of dynamic_streams makes a second stream with the name"
                    f" '{name}'."
                )
                raise DiscoveryError(message) if is_of_api else ManifestError(message)
            seen.add(name)
            if is_of_api:
                _restrict_schema_file(stream.get("full_refresh_stream", stream), manifest.folder)
            yield template_name, stream


def _fill_template(
    tap: Any,
    shared: SharedResources,
    declared: DynamicDeclarativeStream,
    node: MappingNode,
    template_name: str,
) -> Iterator[MappingNode]:
    resolver = declared.components_resolver
    template = StreamTemplate(
        node["stream_template"],
        resolver,
        get_lines(node["components_resolver"]),
        parents_win=declared.use_parent_parameters,
    )

    def read(retriever: Mapping[str, Any]) -> Iterator[tuple[PartitionSlice, Record]]:
        return _read_records(tap, shared, retriever, template_name)

    is_of_api = isinstance(resolver, HttpComponentsResolver)
    origins = _find_origins(shared, node["stream_template"]) if is_of_api else None
    try:
        for scope in resolver.scopes(read):
            stream = template.fill({**scope, "config": shared.config})
            if origins is not None:
                _check_token_endpoints(shared, stream, origins)
            for part in iterate_nodes(stream):
                part.origins = origins
            yield stream
    except ManifestError as error:
        if error.is_placed:
            raise
        location = shared.manifest.format_place(error.line, f"{node.path}.components_resolver")
        raise ManifestError(error.message, place=location, line=error.line) from None


def _find_origins(shared: SharedResources, template: MappingNode) -> frozenset[Origin]:
    """Return the origins of the URLs in a stream template, before API data is filled in.

    Only these origins (scheme, host, port) may receive the credentials of the generated streams.
    """
    keys = ("url_base", "url", _TOKEN_ENDPOINT)
    origins = (_find_origin(shared, part, key) for part in iterate_nodes(template) for key in keys)
    return frozenset(origin for origin in origins if origin is not None)


def _find_origin(shared: SharedResources, part: MappingNode, key: str) -> Origin | None:
    """Return the origin (scheme, host, port) of the URL in a component's option.

    Return None if the option is missing, or if its template depends on more than the config.
    ``part`` is the component's node, ``key`` the name of the option.
    """
    with suppress(ManifestError):
        text = build_component(
            shared.manifest, part.get(key), str | None, shared.config, part.parameters
        )
        return declared_origin(text) if text else None
    return None


def _check_token_endpoints(
    shared: SharedResources, stream: MappingNode, origins: frozenset[Origin]
) -> None:
    """Raise ManifestError if a generated stream requests tokens from an untrusted origin.

    Token requests contain the client secret, so they are sent only to ``origins``, the origins
    (scheme, host, port) in the stream template. A response must not add other origins.
    """
    for part in iterate_nodes(stream):
        origin = _find_origin(shared, part, _TOKEN_ENDPOINT)
        if origin is not None and origin not in origins:
            raise ManifestError(
                f"A response sets the {_TOKEN_ENDPOINT} of a stream to {origin}, which the stream"
                " template does not name: write the endpoint into the template."
            )


def _restrict_schema_file(stream: MappingNode, folder: Path) -> None:
    """Let a stream whose name comes from a response read only a schema file in ``schemas``.

    Otherwise the response could choose any JSON file near the manifest, such as the config.
    ``folder`` is the folder of the manifest.
    """
    path = f"schemas/{Path(stream['name']).name}.json"
    exists = (folder / path).is_file()
    named = MappingNode({"type": "JsonFileSchemaLoader", "file_path": DataText(path)})
    loaders: Any = stream.get("schema_loader")
    if loaders is None:
        stream["schema_loader"] = named if exists else MappingNode({"type": "InlineSchemaLoader"})
        return
    for loader in loaders if isinstance(loaders, list) else [loaders]:
        if loader.get("type") == "JsonFileSchemaLoader" and not loader.get("file_path"):
            if not exists:
                raise ManifestError(
                    f"there is no file '{path}' in {folder}: a response may choose a schema file"
                    " only in the folder schemas. Add it, or write its path as `file_path`."
                )
            loader.update(named)


def _read_records(
    tap: Any, shared: SharedResources, retriever: Mapping[str, Any], name: str
) -> Iterator[tuple[PartitionSlice, Record]]:
    """Read the (stream slice, record) pairs from which streams are generated, and yield them.

    Raises:
        DiscoveryError: The records cannot be read; the original error is its cause.
    """
    node = MappingNode({"type": "DeclarativeStream", "name": name, "retriever": retriever})
    node.path = str(getattr(retriever, "path", "")).removesuffix(".retriever")
    stream = ManifestStream(tap, node, is_description=True)
    try:
        with shared.caching_parents(stream.components.parent_names):
            for context in stream.slices():
                extra_fields = getattr(context, "extra_fields", None)
                stream_slice = PartitionSlice(context or {}, extra_fields=extra_fields)
                for record in stream.read_slice(context):
                    yield stream_slice, record
    except (SyncError, requests.RequestException) as error:
        raise DiscoveryError(
            f"The streams of '{name}' in dynamic_streams cannot be discovered: {error}"
        ) from error


def _find_name_problem(stream: MappingNode, name: Any) -> str | None:
    """Return an error message if the name of a generated stream is invalid; otherwise None."""
    if not isinstance(name, str) or not name:
        return (
            f"makes a stream whose name is {name!r}, not a text: map a text to [name], with"
            " `value_type: string` if it looks like a number."
        )
    parts = [stream[key] for key in ("full_refresh_stream", "incremental_stream") if key in stream]
    if any(part.get("name") != name for part in parts):
        return f"makes a stream '{name}' whose parts have another name: map it to [\"**\", name]."
    return None
