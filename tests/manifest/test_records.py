"""Record selectors: extraction, filters, order of transformations, normalization of values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tap_core.exceptions import FatalAPIError
from tap_core.manifest.components.extractors import DpathExtractor, ParentFieldPath, RecordExpander
from tap_core.manifest.components.record_selector import (
    CombinedExtractor,
    RecordFilter,
    RecordSelector,
)
from tap_core.manifest.components.retrievers import SimpleRetriever
from tap_core.manifest.components.transformations import (
    AddedFieldDefinition,
    AddFields,
    RemoveFields,
)
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interpolation import BoundTemplate, compile_template
from tests.manifest.pieces import build


def condition(text: str) -> Any:
    return BoundTemplate(compile_template(text), {"config": {"least": 2}}, "condition")


def value(text: str) -> Any:
    return BoundTemplate(compile_template(text), {}, "value")


def select_records(selector: RecordSelector, *documents: Any, **options: Any) -> list[Any]:
    select = selector.make_selection(**options)
    return list(select(documents, {"stream_slice": {}}, lambda: None))


@pytest.mark.parametrize(
    "path, records",
    [
        (["data"], [{"id": 1}, {"id": 2}]),
        (["one"], [{"id": 3}]),
        (["empty"], []),
        (["null"], []),
        (["absent"], []),
        (["data", "0"], [{"id": 1}]),
        (["groups", "*", "members", "*"], [{"id": 4}, {"id": 5}]),
    ],
)
def test_dpath_extractor_yields_list_elements_or_one_object(path, records):
    """As in Airbyte's YAML reference, an empty object or null yields no record."""
    document = {
        "data": [{"id": 1}, {"id": 2}],
        "one": {"id": 3},
        "empty": {},
        "null": None,
        "groups": [{"members": [{"id": 4}]}, {"members": [{"id": 5}]}],
    }
    assert select_records(RecordSelector(DpathExtractor(path)), document) == records


def test_empty_path_yields_documents_and_list_elements():
    selector = RecordSelector(DpathExtractor([]))
    assert select_records(selector, {"id": 1}, [{"id": 2}], {}) == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize("mode, records", [("union", [1, 2, 3]), ("first_match", [1, 2])])
def test_combined_extractor_uses_the_union_or_first_match(mode, records):
    """As in Airbyte's YAML reference for CombinedExtractor."""
    paths = [["absent"], ["a"], ["b"]]
    combined = CombinedExtractor(
        [DpathExtractor(path) for path in paths], mode, skip_empty_records=True
    )
    document = {"a": [{"n": 1}, None, {"n": 2}], "b": [{"n": 3}]}
    assert [record["n"] for record in select_records(RecordSelector(combined), document)] == records


@pytest.mark.parametrize("options", [{}, {"record_filter": RecordFilter(condition("{{ true }}"))}])
@pytest.mark.parametrize("mode, count", [("union", 5), ("first_match", 3)])
def test_skipped_empty_records_are_counted_as_records_of_the_page(mode, count, options):
    """Otherwise a page with an empty record would end the pagination."""
    inner = CombinedExtractor([DpathExtractor(["a"])], skip_empty_records=True)
    extractors = [DpathExtractor(["nulls"]), inner, DpathExtractor(["absent"])]
    combined = CombinedExtractor(extractors, mode, skip_empty_records=True)
    counted: list[None] = []
    select = RecordSelector(combined, **options).make_selection()
    document = {"nulls": [None, {}], "a": [None, {"n": 1}, {"n": 2}]}
    assert list(select([document], {}, lambda: counted.append(None))) == [{"n": 1}, {"n": 2}]
    assert len(counted) == count


def test_offset_increment_cannot_count_the_records_of_several_extractors():
    """Its offsets would be those of records that were not read; a page number is not counted."""
    text = """\
    type: SimpleRetriever
    requester: {{type: HttpRequester, url: "http://x"}}
    record_selector:
      type: RecordSelector
      extractor:
        type: CombinedExtractor
        mode: first_match
        extractors: [{{type: CombinedExtractor, mode: {mode}, extractors: {extractors}}}]
    paginator: {{type: DefaultPaginator, pagination_strategy: {{type: {strategy}}}}}
    """
    extractors = "[{type: DpathExtractor, field_path: [a]}]"
    for mode, strategy in [("first_match", "OffsetIncrement"), ("union", "PageIncrement")]:
        build(text.format(mode=mode, strategy=strategy, extractors=extractors), SimpleRetriever)
    with pytest.raises(ManifestError, match="OffsetIncrement would skip records"):
        build(
            text.format(mode="union", strategy="OffsetIncrement", extractors=extractors),
            SimpleRetriever,
        )
    with pytest.raises(ManifestError, match="at least one of `extractors`"):
        build(text.format(mode="union", strategy="PageIncrement", extractors="[]"), SimpleRetriever)


@pytest.mark.parametrize("options", [{}, {"record_filter": RecordFilter(condition("{{ true }}"))}])
@pytest.mark.parametrize("extracted", [1, "a", None, [1]])
def test_extracted_value_that_is_not_an_object_is_an_error(options, extracted):
    with pytest.raises(FatalAPIError, match="not an object"):
        select_records(
            RecordSelector(DpathExtractor(["data"]), **options), {"data": [{"id": 1}, extracted]}
        )


def test_every_extracted_record_is_counted_before_the_filter():
    """Paginators use the number of records that the API returned."""
    counted: list[None] = []
    selector = RecordSelector(DpathExtractor([]), RecordFilter(condition("{{ record.id == 2 }}")))
    records = selector.make_selection()([[{"id": 1}, {"id": 2}]], {}, lambda: counted.append(None))
    assert list(records) == [{"id": 2}]
    assert len(counted) == 2


def test_filter_condition_can_use_record_slice_and_config():
    text = "{{ record.id >= config.least and record.of == stream_slice.group }}"
    select = RecordSelector(DpathExtractor([]), RecordFilter(condition(text))).make_selection()
    records = [{"id": 1, "of": "a"}, {"id": 2, "of": "a"}, {"id": 2, "of": "b"}]
    selected = select([records], {"stream_slice": {"group": "a"}}, lambda: None)
    assert list(selected) == [{"id": 2, "of": "a"}]


@pytest.mark.parametrize(
    "setting, default, expected",
    [(None, False, []), (None, True, [{"id": 1, "new": 1}]), (True, False, [{"id": 1, "new": 1}])],
)
def test_transform_before_filtering_sets_the_order(setting, default, expected):
    adding = AddFields([AddedFieldDefinition(["new"], value("{{ record.id }}"))])
    selector = RecordSelector(
        DpathExtractor([]),
        RecordFilter(condition("{{ record.new == 1 }}")),
        transform_before_filtering=setting,
    )
    records = select_records(
        selector, [{"id": 1}], transformations=[adding], transform_first=default
    )
    assert records == expected


SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": ["null", "string"]},
        "number": {"type": "number"},
        "whole": {"type": ["integer", "null"]},
        "flag": {"type": "boolean"},
        "many": {"type": "array", "items": {"type": ["string"]}},
        "either": {"type": ["string", "integer"]},
        "inner": {"$ref": "#/definitions/inner"},
    },
    "definitions": {
        "inner": {
            "type": "object",
            "properties": {"whole": {"type": "integer"}, "inner": {"$ref": "#/definitions/inner"}},
        }
    },
}


def normalize(record: dict[str, Any]) -> dict[str, Any]:
    selector = RecordSelector(DpathExtractor([]), schema_normalization="Default")
    [result] = select_records(selector, [record], schema=lambda: SCHEMA)
    return result


@pytest.mark.parametrize(
    "field, original, expected",
    [
        ("text", 5, "5"),
        ("text", Decimal("1.50"), "1.5"),
        ("text", {"a": Decimal("1.5")}, "{'a': 1.5}"),
        ("text", None, None),
        ("number", "1.10", Decimal("1.10")),
        ("number", "much", "much"),
        ("number", "1_0", Decimal(10)),
        ("number", "12__34", "12__34"),
        ("number", "_7_", "_7_"),
        ("number", Decimal("0.12345678901234567890123"), Decimal("0.12345678901234567890123")),
        ("whole", "7", 7),
        ("whole", "7.5", "7.5"),
        ("whole", Decimal("7.5"), 7),
        ("flag", "Yes", True),
        ("flag", "off", False),
        ("flag", "maybe", "maybe"),
        ("flag", 0, False),
        ("many", "one", ["one"]),
        ("many", [1, 2], ["1", "2"]),
        ("either", 5, 5),
        ("inner", {"whole": "1", "inner": {"whole": "2"}}, {"whole": 1, "inner": {"whole": 2}}),
        ("unknown", "1", "1"),
    ],
)
def test_default_normalization_converts_values_to_schema_types(field, original, expected):
    """As in Airbyte's YAML reference for SchemaNormalization, by the rules of airbyte-cdk."""
    actual = normalize({field: original})[field]
    assert actual == expected
    assert type(actual) is type(expected)


def test_record_expander_expands_a_nested_list():
    """As in Airbyte's YAML reference for RecordExpander."""
    expander = RecordExpander(
        ["lines"],
        parent_fields=[ParentFieldPath(["id"], ["order", "id"])],
        remain_original_record=True,
        on_no_records="emit_parent",
    )
    selector = RecordSelector(DpathExtractor(["data"], expander))
    order = {"id": 1, "lines": [{"n": 1}, 2]}
    empty = {"id": 2, "lines": []}
    assert select_records(selector, {"data": [order, empty]}) == [
        {"n": 1, "order": {"id": 1}, "original_record": order},
        {"value": 2, "order": {"id": 1}, "original_record": order},
        empty,
    ]


def test_expanded_record_can_be_merged_with_its_parent():
    expander = RecordExpander(["lines", "data"], merge_parent=True)
    selector = RecordSelector(DpathExtractor([], expander))
    order = {"id": 1, "lines": {"data": [{"id": 9}], "more": False}}
    assert select_records(selector, order) == [{"id": 9, "lines": {"more": False}}]


def test_original_record_is_that_of_the_api_if_earlier_records_were_changed():
    expander = RecordExpander(["lines"], remain_original_record=True)
    order = {"lines": [{"a": {"b": 1}}, {"a": {"b": 2}}]}
    selector = RecordSelector(DpathExtractor([], expander))
    removed = RemoveFields([["a", "b"]])
    original = {"lines": [{"a": {"b": 1}}, {"a": {"b": 2}}]}
    assert select_records(selector, order, transformations=[removed]) == [
        {"a": {}, "original_record": original},
        {"a": {}, "original_record": original},
    ]


def test_parent_is_copied_without_the_list_for_each_merged_record():
    """Otherwise the time is the square of the length of the list."""
    copied = []

    class Item(dict[str, Any]):
        def __deepcopy__(self, memo):
            copied.append(self)
            return self

    expander = RecordExpander(["lines"], merge_parent=True)
    records = list(expander.expand({"id": 1, "lines": [Item(n=n) for n in range(50)]}))
    assert records == [{"id": 1, "n": n} for n in range(50)]
    assert len(copied) <= 100


def test_parent_field_below_a_scalar_value_is_an_error_of_the_manifest():
    """As in airbyte-cdk, which reports a configuration error."""
    expander = RecordExpander(["lines"], parent_fields=[ParentFieldPath(["id"], ["order", "id"])])
    with pytest.raises(ManifestError, match=r"record_path \['order', 'id'\].*a value of type int"):
        list(expander.expand({"id": 1, "lines": [{"order": 5}]}))


def test_parent_field_with_a_wildcard_is_rejected():
    with pytest.raises(ManifestError, match="exactly one field"):
        ParentFieldPath(["*"], ["id"])
