"""Runs PyAirbyte: a source into its cache, and a source into a destination.

The interpreter of the peer `pyairbyte` runs it, offline. Everything is done twice, the second time
with a larger source; `write` runs once more through a cache. The argument is a JSON document, and
the last line of the output is another one: the record counts and the contents of the cache.
"""

# mypy: ignore-errors

from __future__ import annotations

import json
import sys
from pathlib import Path

import airbyte
from airbyte.caches import DuckDBCache


def main(request):
    """Run the requested operation, `read` or `write`, and print the result."""
    source = airbyte.get_source(
        request.get("name", "tap-shop"),
        config=request["configs"][0],
        local_executable=Path(request["source"]),
    )
    source.check()
    answer = {"streams": source.get_available_streams(), "secrets": secrets(source)}
    if "destination" in request:
        answer["write"] = write(source, request)
    else:
        answer["read"] = read(source, request)
    print()
    print(json.dumps(answer, default=str))


def secrets(source):
    """Return the settings that the specification marks as secret."""
    properties = source.config_spec["properties"]
    return [name for name, schema in properties.items() if schema.get("airbyte_secret")]


def read(source, request):
    """Read all streams into a cache, once for each of the configurations."""
    cache = DuckDBCache(db_path=request["cache"])
    rounds = []
    for config in request["configs"]:
        source.set_config(config)
        source.select_all_streams()
        result = source.read(cache=cache)
        rows = {name: [dict(row) for row in dataset] for name, dataset in result.streams.items()}
        counted = dict(result._progress_tracker.stream_read_counts)
        rounds.append({"counted": counted, "rows": rows, "states": states(cache, source)})
    return rounds


def write(source, request):
    """Write the chosen streams into a destination, once for each of the configurations."""
    destination = airbyte.get_destination(
        "target-spark",
        config=request["destination_config"],
        local_executable=Path(request["destination"]),
    )
    destination.check()
    cache = DuckDBCache(db_path=request["cache"])
    rounds = []
    for config in request["configs"]:
        source.set_config(config)
        source.select_streams(request.get("streams", "*"))
        result = destination.write(source, cache=False, state_cache=cache)
        rounds.append(
            {
                "counted": result.processed_records,
                "states": states(cache, source, destination),
            }
        )
    # The default of PyAirbyte: records are read into a cache, and then from the cache.
    cached = source.read(cache=DuckDBCache(db_path=f"{request['cache']}.2"))
    result = destination.write(cached)
    rounds.append({"counted": result.processed_records})
    return rounds


def states(cache, source, destination=None):
    """Return the stored states: the name and the state of each stream."""
    provider = cache.get_state_provider(
        source_name=source.name,
        destination_name=destination.name if destination else None,
    )
    messages = [
        json.loads(message.model_dump_json()) for message in provider.state_message_artifacts
    ]
    return {
        message["stream"]["stream_descriptor"]["name"]: message["stream"]["stream_state"]
        for message in messages
    }


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
