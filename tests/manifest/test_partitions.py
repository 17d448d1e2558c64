"""Slices: values of lists, records of parents, groups of them, and where they are put."""

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
from tap_core.state.partition_index import freeze_context


class Parent:
    """A stream whose slices and records are told; it notes what was read of it."""

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
        """Leave it."""


class Child(Parent):
    """A stream with that parent, which keeps how far it was read."""

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


class Moving(Parent):
    """A parent that can go on from a position: so many records have been read."""

    resume_position = 0

    def resume_from(self, position: int | None) -> Any:
        [(context, records)] = self._slices
        made = copy.copy(self)
        made._slices = ((context, records[position or 0 :]),)
        made.resume_position = len(records)
        return made


def contexts(router: Any, parent: Parent | None = None) -> list[dict[str, Any]]:
    return [dict(one) for one in router.generate_contexts(Child(parent or Parent()))]


def of(key: str = "id", **options: Any) -> SubstreamPartitionRouter:
    return SubstreamPartitionRouter([ParentStreamConfig({}, key, "parent_id", **options)])


def test_each_value_of_a_list_is_a_slice():
    router = ListPartitionRouter("section", ["a", "b"])
    assert contexts(router) == [{"section": "a"}, {"section": "b"}]


@pytest.mark.parametrize(
    "values, found",
    [
        ("['1', b]", ["1", "b"]),
        ("[2023, '{{ config.year }}']", ["2023", "2024"]),
        ("\"{{ ['1', 2] }}\"", ["1", 2]),
        ('"{{ config.list }}"', [{"a": 1}, "x"]),
        ('"{{ parameters.known }}"', ["p"]),
    ],
)
def test_values_may_be_a_list_or_a_template_that_gives_one(tmp_path: Path, values, found):
    """Airbyte's YAML reference, ListPartitionRouter: values of a list are texts."""
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
    assert [one["section"] for one in contexts(router)] == found


def test_values_that_are_no_list_are_refused_with_their_place():
    router = ListPartitionRouter("section", 5, place="manifest.yaml, line 3")
    with pytest.raises(ManifestError, match=r"line 3: values is 5, and must be a list"):
        contexts(router)


def test_each_record_of_a_parent_is_a_slice_and_one_without_the_key_is_not():
    """Nothing is said of a parent that has no slices of its own."""
    parent = Parent((None, [{"id": 1}, {"id": None}, {"name": "x"}, {"id": 0}, {"id": 1}]))
    assert contexts(of(), parent) == [{"parent_id": 1}, {"parent_id": 0}, {"parent_id": 1}]


def test_slices_of_a_parent_are_named_by_those_of_its_children():
    parent = Parent(({"team": "a"}, [{"id": 1}]), ({"team": "b"}, [{"id": 1}]))
    assert contexts(of(), parent) == [
        {"parent_id": 1, "parent_slice": {"team": "a"}},
        {"parent_id": 1, "parent_slice": {"team": "b"}},
    ]


def test_a_key_may_lie_deep_in_a_record_or_be_the_record():
    record = {"owner": {"login": "x"}}
    assert contexts(of("owner/login"), Parent((None, [record]))) == [{"parent_id": "x"}]
    assert contexts(of("/"), Parent((None, [record]))) == [{"parent_id": record}]


def test_a_parent_is_read_no_further_than_its_children_ask():
    parent = Parent((None, [{"id": number} for number in range(100)]))
    assert len(list(islice(of().generate_contexts(Child(parent)), 3))) == 3
    assert parent.read == [0, 1, 2]


def test_extra_fields_hang_on_a_slice_and_are_no_part_of_it():
    """What tells slices apart is stored with the state, and extra fields are not."""
    parent = Parent((None, [{"id": 1, "team": {"slug": "t"}}]))
    router = of(extra_fields=[["team", "slug"], ["absent"]])
    [context] = router.generate_contexts(Child(parent))
    assert context == {"parent_id": 1}
    assert freeze_context(context) == freeze_context({"parent_id": 1})
    assert context.extra_fields == {"team.slug": "t", "absent": None}
    assert copy.copy(context).extra_fields == context.extra_fields


def test_records_of_children_within_a_parent_come_as_an_answer():
    """Airbyte's YAML reference, lazy_read_pointer."""
    parent = Parent((None, [{"id": 1, "lines": {"data": [{"n": 1}]}}, {"id": 2}]))
    found = [
        one.extra_fields["child_response"].json()
        for one in of(lazy_read_pointer=["lines"]).generate_contexts(Child(parent))
    ]
    assert found == [{"data": [{"n": 1}]}, []]


def test_a_parent_that_moves_on_is_read_from_where_its_children_left_it():
    """Airbyte's YAML reference, incremental_dependency."""
    parent = Moving((None, [{"id": 1}, {"id": 2}]))
    child = Child(parent)
    router = of(incremental_dependency=True)
    walk = router.generate_contexts(child)
    assert next(walk) == {"parent_id": 1}
    assert next(walk) == {"parent_id": 2}
    assert child.positions == {}, "the slice of the last record is not synced yet"
    assert list(walk) == []
    assert child.positions == {"parents": 2}
    child._parent = Moving((None, [{"id": 1}, {"id": 2}, {"id": 3}]))
    assert [dict(one) for one in router.generate_contexts(child)] == [{"parent_id": 3}]


def test_several_parents_come_one_after_the_other():
    parents = [ParentStreamConfig({}, "id", name) for name in ("a", "b")]
    parent = Parent((None, [{"id": 1}]))
    assert contexts(SubstreamPartitionRouter(parents), parent) == [{"a": 1}, {"b": 1}]
    with pytest.raises(ManifestError, match="at least one parent"):
        SubstreamPartitionRouter([])


def test_slices_in_groups_hold_lists_and_each_value_once():
    """Airbyte's YAML reference, GroupingPartitionRouter."""
    parent = Parent((None, [{"id": one, "name": f"n{one}"} for one in (1, 2, 1, 3)]))
    inner = of(extra_fields=[["name"]])
    groups = list(GroupingPartitionRouter(2, inner).generate_contexts(Child(parent)))
    assert groups == [{"parent_id": [1, 2]}, {"parent_id": [3]}]
    assert [one.extra_fields for one in groups] == [{"name": ["n1", "n2"]}, {"name": ["n3"]}]
    assert contexts(GroupingPartitionRouter(4, inner, deduplicate=False), parent) == [
        {"parent_id": [1, 2, 1, 3]}
    ]
    with pytest.raises(ManifestError, match="at least 1"):
        GroupingPartitionRouter(0, inner)


def test_slices_of_several_routers_one_after_the_other():
    lists = [ListPartitionRouter("a", ["1"]), ListPartitionRouter("a", ["2"])]
    assert contexts(UnionPartitionRouter(lists)) == [{"a": "1"}, {"a": "2"}]


def test_two_slices_together_are_one_and_the_first_counts():
    made = PartitionSlice({"a": 1}, extra_fields={"x": 1}).merge(PartitionSlice({"a": 2, "b": 3}))
    assert made == {"a": 1, "b": 3}
    assert made.extra_fields == {"x": 1}


@pytest.mark.parametrize("value, params", [("x", {"section": "x"}), ("", {}), (0, {}), (None, {})])
def test_the_value_of_a_slice_is_put_where_an_option_says_so(value, params):
    """An empty one is left out, as in airbyte-cdk."""
    option = RequestOption("request_parameter", "section")
    request = HTTPRequest("http://x.test")
    ListPartitionRouter("of", [], option).put(request, {"stream_partition": {"of": value}})
    assert request.params == params
    request = HTTPRequest("http://x.test")
    of(request_option=option).put(request, {"stream_partition": {"parent_id": value}})
    assert request.params == params
