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


def main(asked):
    """Run the requested operation, `read` or `write`, and print the result."""
    source = airbyte.get_source(
        asked.get("name", "tap-shop"),
        config=asked["configs"][0],
        local_executable=Path(asked["source"]),
    )
    source.check()
    answer = {"streams": source.get_available_streams(), "secrets": secrets(source)}
    if "destination" in asked:
        answer["write"] = write(source, asked)
    else:
        answer["read"] = read(source, asked)
    print()
    print(json.dumps(answer, default=str))


def secrets(source):
    """Return the settings that the specification marks as secret."""
    properties = source.config_spec["properties"]
    return [name for name, schema in properties.items() if schema.get("airbyte_secret")]


def read(source, asked):
    """Read all streams into a cache, once for each of the configurations."""
    cache = DuckDBCache(db_path=asked["cache"])
    rounds = []
    for config in asked["configs"]:
        source.set_config(config)
        source.select_all_streams()
        result = source.read(cache=cache)
        rows = {name: [dict(row) for row in dataset] for name, dataset in result.streams.items()}
        counted = dict(result._progress_tracker.stream_read_counts)
        rounds.append({"counted": counted, "rows": rows, "states": states(cache, source)})
    return rounds


def write(source, asked):
    """Write the chosen streams into a destination, once for each of the configurations."""
    destination = airbyte.get_destination(
        "target-spark",
        config=asked["destination_config"],
        local_executable=Path(asked["destination"]),
    )
    destination.check()
    cache = DuckDBCache(db_path=asked["cache"])
    rounds = []
    for config in asked["configs"]:
        source.set_config(config)
        source.select_streams(asked.get("streams", "*"))
        result = destination.write(source, cache=False, state_cache=cache)
        rounds.append(
            {
                "counted": result.processed_records,
                "states": states(cache, source, destination),
            }
        )
    # The default of PyAirbyte: records are read into a cache, and then from the cache.
    kept = source.read(cache=DuckDBCache(db_path=f"{asked['cache']}.2"))
    result = destination.write(kept)
    rounds.append({"counted": result.processed_records})
    return rounds


def states(cache, source, destination=None):
    """Return the stored states: the name and the state of each stream."""
    provider = cache.get_state_provider(
        source_name=source.name,
        destination_name=destination.name if destination else None,
    )
    kept = [json.loads(one.model_dump_json()) for one in provider.state_message_artifacts]
    return {
        one["stream"]["stream_descriptor"]["name"]: one["stream"]["stream_state"] for one in kept
    }


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
