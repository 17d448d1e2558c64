"""Records that are read again for a new child stream are not written again."""

from __future__ import annotations

from typing import Any

from tap_core.sync.resend_filter import make_resend_filter
from tests.sync.syncing import INTEGER, make, schema, stream


class CountedEntry(dict[str, Any]):
    """An entry of a state's partitions that counts how often it is read."""

    reads = 0

    def get(self, key: str, default: Any = None) -> Any:
        CountedEntry.reads += 1
        return super().get(key, default)


def test_bookmark_of_each_partition_is_found_without_a_search() -> None:
    """The time that a sync of many partitions takes does not grow with their square."""
    count = 300
    parent = make(
        stream("parent", [], schema=schema(id=INTEGER, n=INTEGER), replication_key="n")
    ).streams["parent"]
    parent.previously_sent_state = {
        "partitions": [
            None,
            {"replication_key_value": 0},
            *(
                CountedEntry(
                    context={"id": number}, replication_key="n", replication_key_value=number
                )
                for number in range(count)
            ),
            {"context": {"id": 7}, "replication_key": "n", "replication_key_value": 99},
        ]
    }
    for number in range(count):
        is_before_bookmark = make_resend_filter(parent, {"id": number})
        assert is_before_bookmark is not None
        assert is_before_bookmark({"n": number - 1})
        assert not is_before_bookmark({"n": number})
    assert make_resend_filter(parent, {"id": count}) is None
    assert CountedEntry.reads < 5 * count
