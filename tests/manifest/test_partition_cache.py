"""Partition routers: lists, parent records, groups, unions, and request options."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tap_core.http.request import HTTPRequest
from tap_core.incremental.request_options import RequestOption
from tap_core.manifest.builder import build_component
from tap_core.manifest.components.partition_routers import (
    GroupingPartitionRouter,
    ListPartitionRouter,
    ParentStreamConfig,
    PartitionSlice,
    SubstreamPartitionRouter,
    UnionPartitionRouter,
)
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import PartitionRouter
from tap_core.manifest.loader import read_manifest
from tap_core.manifest.parameters import expand_component
from tap_core.manifest.partition_cache import cartesian_product
from tap_core.state.partition_index import freeze_context


class Parent:
    """A stream with given slices and records that records the ids that were read."""

    name = "parents"
    config: dict[str, Any] = {}

    def __init__(self, *slices: tuple[dict[str, Any] | None, list[dict[str, Any]]]) -> None:
        self._slices = slices
        self.read: list[Any] = []

    def slices(self) -> Iterable[Any]:
        return [context for context, _ in self._slices]

    def read_slice(self, context: Any) -> Iterator[dict[str, Any]]:
        for known, records in self._slices:
            if known == context:
                for record in records:
                    self.read.append(record.get("id"))
                    yield record

    def log(self, message: str, *args: Any, **options: Any) -> None:
        """Log nothing."""


class Child(Parent):
    """A stream with this parent that stores the parent's position."""

    def __init__(self, parent: Parent) -> None:
        super().__init__()
        self._parent = parent
        self.positions: dict[str, Any] = {}

    def parent(self, declared: Any) -> Any:
        return self._parent

    def find_parent_state(self, parent: str) -> Any:
        return self.positions.get(parent)

    def keep_parent_state(self, parent: str, position: Any) -> None:
        self.positions[parent] = position


class ResumableParent(Parent):
    """A parent that can resume from a position, which is a number of records."""

    resume_position = 0

    def resume_from(self, position: int | None) -> Any:
        [(context, records)] = self._slices
        resumed = copy.copy(self)
        resumed._slices = ((context, records[position or 0 :]),)
        resumed.resume_position = len(records)
        return resumed


def list_contexts(router: Any, parent: Parent | None = None) -> list[dict[str, Any]]:
    return [dict(context) for context in router.generate_contexts(Child(parent or Parent()))]


def make_substream_router(key: str = "id", **options: Any) -> SubstreamPartitionRouter:
    return SubstreamPartitionRouter([ParentStreamConfig({}, key, "parent_id", **options)])


def test_each_value_of_a_list_is_a_partition():
    router = ListPartitionRouter("section", ["a", "b"])
    assert list_contexts(router) == [{"section": "a"}, {"section": "b"}]


@pytest.mark.parametrize(
    "values, expected",
    [
        ("['1', b]", ["1", "b"]),
        ("[2023, '{{ config.year }}']", ["2023", "2024"]),
        ("\"{{ ['1', 2] }}\"", ["1", 2]),
        ('"{{ config.list }}"', [{"a": 1}, "x"]),
        ('"{{ parameters.known }}"', ["p"]),
    ],
)
def test_list_values_can_be_a_list_or_a_template(tmp_path: Path, values, expected):
    """As in Airbyte's YAML reference, the values of a list are strings."""
    file = tmp_path / "manifest.yaml"
    file.write_text(
        f"""
version: 6.0.0
type: DeclarativeSource
streams: []
definitions:
  router:
    type: ListPartitionRouter
    cursor_field: section
    values: {values}
    $parameters: {{known: [p]}}
""",
        encoding="utf-8",
    )
    manifest = read_manifest(file)
    config = {"year": 2024, "list": [{"a": 1}, "x"]}
    node = expand_component(manifest.tree["definitions"]["router"], "router", None, {})
    router = build_component(manifest, node, PartitionRouter, config)
    assert [context["section"] for context in list_contexts(router)] == expected


def test_values_that_are_not_a_list_are_rejected_with_their_line():
    router = ListPartitionRouter("section", 5, place="manifest.yaml, line 3")
    with pytest.raises(ManifestError, match=r"line 3: values is 5, and must be a list"):
        list_contexts(router)


def test_each_parent_record_with_the_key_is_a_partition():
    """Without slices of the parent the context has no ``parent_slice``."""
    parent = Parent((None, [{"id": 1}, {"id": None}, {"name": "x"}, {"id": 0}, {"id": 1}]))
    assert list_contexts(make_substream_router(), parent) == [
        {"parent_id": 1},
        {"parent_id": 0},
        {"parent_id": 1},
    ]


def test_context_of_a_child_contains_the_parent_slice():
    parent = Parent(({"team": "a"}, [{"id": 1}]), ({"team": "b"}, [{"id": 1}]))
    assert list_contexts(make_substream_router(), parent) == [
        {"parent_id": 1, "parent_slice": {"team": "a"}},
        {"parent_id": 1, "parent_slice": {"team": "b"}},
    ]


def test_parent_key_can_be_a_path_or_the_whole_record():
    record = {"owner": {"login": "x"}}
    assert list_contexts(make_substream_router("owner/login"), Parent((None, [record]))) == [
        {"parent_id": "x"}
    ]
    assert list_contexts(make_substream_router("/"), Parent((None, [record]))) == [
        {"parent_id": record}
    ]


def test_parent_records_are_read_lazily():
    parent = Parent((None, [{"id": number} for number in range(100)]))
    assert len(list(islice(make_substream_router().generate_contexts(Child(parent)), 3))) == 3
    assert parent.read == [0, 1, 2]


def test_extra_fields_are_attached_to_the_slice_but_not_part_of_it():
    """Extra fields do not identify a slice and are not stored in the state."""
    parent = Parent((None, [{"id": 1, "team": {"slug": "t"}}]))
    router = make_substream_router(extra_fields=[["team", "slug"], ["absent"]])
    [context] = router.generate_contexts(Child(parent))
    assert context == {"parent_id": 1}
    assert freeze_context(context) == freeze_context({"parent_id": 1})
    assert context.extra_fields == {"team.slug": "t", "absent": None}
    assert copy.copy(context).extra_fields == context.extra_fields


def test_lazy_read_pointer_provides_children_as_a_response():
    """As in Airbyte's YAML reference for ``lazy_read_pointer``."""
    parent = Parent((None, [{"id": 1, "lines": {"data": [{"n": 1}]}}, {"id": 2}]))
    responses = [
        context.extra_fields["child_response"].json()
        for context in make_substream_router(lazy_read_pointer=["lines"]).generate_contexts(
            Child(parent)
        )
    ]
    assert responses == [{"data": [{"n": 1}]}, []]


def test_incremental_dependency_resumes_the_parent_from_its_position():
    """As in Airbyte's YAML reference for ``incremental_dependency``."""
    parent = ResumableParent((None, [{"id": 1}, {"id": 2}]))
    child = Child(parent)
    router = make_substream_router(incremental_dependency=True)
    iterator = router.generate_contexts(child)
    assert next(iterator) == {"parent_id": 1}
    assert next(iterator) == {"parent_id": 2}
    assert child.positions == {}, "the slice of the last record is not synced yet"
    assert list(iterator) == []
    assert child.positions == {"parents": 2}
    child._parent = ResumableParent((None, [{"id": 1}, {"id": 2}, {"id": 3}]))
    assert [dict(context) for context in router.generate_contexts(child)] == [{"parent_id": 3}]


def test_several_parents_are_read_in_order():
    parents = [ParentStreamConfig({}, "id", name) for name in ("a", "b")]
    parent = Parent((None, [{"id": 1}]))
    assert list_contexts(SubstreamPartitionRouter(parents), parent) == [{"a": 1}, {"b": 1}]
    with pytest.raises(ManifestError, match="at least one parent"):
        SubstreamPartitionRouter([])


def test_grouping_router_creates_deduplicated_lists():
    """As in Airbyte's YAML reference for GroupingPartitionRouter."""
    parent = Parent((None, [{"id": number, "name": f"n{number}"} for number in (1, 2, 1, 3)]))
    inner = make_substream_router(extra_fields=[["name"]])
    groups = list(GroupingPartitionRouter(2, inner).generate_contexts(Child(parent)))
    assert groups == [{"parent_id": [1, 2]}, {"parent_id": [3]}]
    assert [context.extra_fields for context in groups] == [
        {"name": ["n1", "n2"]},
        {"name": ["n3"]},
    ]
    assert list_contexts(GroupingPartitionRouter(4, inner, deduplicate=False), parent) == [
        {"parent_id": [1, 2, 1, 3]}
    ]
    with pytest.raises(ManifestError, match="at least 1"):
        GroupingPartitionRouter(0, inner)


def test_grouping_router_rejects_request_options():
    """As in airbyte-cdk; without its option every group would send the same request."""
    option = RequestOption("request_parameter", "a")
    with pytest.raises(ManifestError, match=r"\{\{ stream_partition\['a'\] \| join"):
        GroupingPartitionRouter(2, ListPartitionRouter("a", ["1"], option))
    parents = SubstreamPartitionRouter([ParentStreamConfig({}, "id", "b", request_option=option)])
    with pytest.raises(ManifestError, match=r"\{\{ stream_partition\['b'\] \| join"):
        GroupingPartitionRouter(2, parents)


def test_union_router_yields_each_value_of_its_routers_once():
    """As in airbyte-cdk, fields beside the partition field become extra fields."""
    parent = Parent(({"a": 1}, [{"id": "2", "name": "n2"}, {"id": "3", "name": "n3"}]))
    inner = make_substream_router(extra_fields=[["name"]])
    listed = UnionPartitionRouter([ListPartitionRouter("parent_id", ["1", "2"])], "parent_id")
    union = UnionPartitionRouter([listed, inner], "parent_id")
    slices = list(union.generate_contexts(Child(parent)))
    assert slices == [{"parent_id": "1"}, {"parent_id": "2"}, {"parent_id": "3"}]
    extras = [context.extra_fields for context in slices]
    assert extras == [{}, {}, {"name": "n3", "parent_slice": {"a": 1}}]


def test_union_router_rejects_other_fields_and_request_options():
    option = RequestOption("request_parameter", "a")
    with pytest.raises(ManifestError, match="the partition field 'b', and must have 'a'"):
        UnionPartitionRouter([ListPartitionRouter("b", ["1"])], "a")
    with pytest.raises(ManifestError, match=r"\{\{ stream_partition\['a'\] \}\}"):
        UnionPartitionRouter([ListPartitionRouter("a", ["1"], option)], "a")
    grouped = GroupingPartitionRouter(1, ListPartitionRouter("b", ["1"]))
    with pytest.raises(ManifestError, match="without the partition field 'a'"):
        list_contexts(UnionPartitionRouter([grouped], "a"))


def test_joined_slices_keep_the_values_of_the_first():
    merged = PartitionSlice({"a": 1}, extra_fields={"x": 1}).merge(PartitionSlice({"a": 2, "b": 3}))
    assert merged == {"a": 1, "b": 3}
    assert merged.extra_fields == {"x": 1}


def test_combined_slices_keep_the_extra_fields_of_all_routers():
    """As in airbyte-cdk, the first router wins if several have a field of the same name."""
    routers = [
        lambda: iter([{"a": 1, "of": "first"}, PartitionSlice({"a": 2}, extra_fields={"x": 1})]),
        lambda: iter([PartitionSlice({"b": n, "of": "b"}, extra_fields={"x": n}) for n in (7, 8)]),
        lambda: iter([PartitionSlice({"c": 3}, extra_fields={"y": 9})]),
    ]
    combined = list(cartesian_product(routers))
    assert combined == [
        {"a": 1, "of": "first", "b": 7, "c": 3},
        {"a": 1, "of": "first", "b": 8, "c": 3},
        {"a": 2, "of": "b", "b": 7, "c": 3},
        {"a": 2, "of": "b", "b": 8, "c": 3},
    ]
    assert [context.extra_fields for context in combined] == [
        {"x": 7, "y": 9},
        {"x": 8, "y": 9},
        {"x": 1, "y": 9},
        {"x": 1, "y": 9},
    ]


@pytest.mark.parametrize("value, params", [("x", {"section": "x"}), ("", {}), (0, {}), (None, {})])
def test_request_option_injects_the_value_of_a_slice(value, params):
    """An empty value is omitted, as in airbyte-cdk."""
    option = RequestOption("request_parameter", "section")
    request = HTTPRequest("http://x.test")
    ListPartitionRouter("of", [], option).put(request, {"stream_partition": {"of": value}})
    assert request.params == params
    request = HTTPRequest("http://x.test")
    make_substream_router(request_option=option).put(
        request, {"stream_partition": {"parent_id": value}}
    )
    assert request.params == params
