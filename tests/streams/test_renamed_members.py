"""Renamed members keep their old names for one version, with a deprecation warning."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from tap_core import RESTStream, Stream, Tap

RENAMED = [
    (Stream, "adds_context", "add_context_to_records", False),
    (Stream, "keeps_partition", "retain_partition", lambda self, context: False),
    (Stream, "sent_before", "previously_sent_state", {"a": 1}),
    (Stream, "takes_any_replication_key", "allow_any_replication_key", True),
    (RESTStream, "honour_retry_after", "respect_retry_after", False),
    (Tap, "goes_on_after_errors", "continue_on_stream_error", True),
    (Tap, "shared_state", "has_shared_state", True),
]


@pytest.mark.parametrize(("base", "old", "new", "value"), RENAMED)
def test_subclass_can_define_the_old_name_with_a_warning(
    base: type, old: str, new: str, value: Any
) -> None:
    with pytest.warns(DeprecationWarning, match=f"`Mine.{old}` is deprecated: use `{new}`"):
        mine = type("Mine", (base,), {old: value})

    assert vars(mine)[new] is value
    assert getattr(base, new) is not value


@pytest.mark.parametrize(("base", "old", "new", "value"), RENAMED)
def test_class_with_old_and_new_name_is_rejected(
    base: type, old: str, new: str, value: Any
) -> None:
    with pytest.raises(TypeError, match=f"Mine defines both `{old}` and `{new}`"):
        type("Mine", (base,), {old: value, new: value})


class Rows(Stream):
    name = "rows"
    schema: ClassVar[dict[str, Any]] = {"properties": {"id": {"type": "integer"}}}

    def get_records(self, context: object) -> list[dict[str, Any]]:
        return [{"id": 1}]


class Rowing(Tap):
    name = "tap-rows"

    def discover_streams(self) -> list[Stream]:
        return [Rows(self)]


def test_old_name_can_be_set_and_read_on_an_instance() -> None:
    stream: Any = Rowing().streams["rows"]

    with pytest.warns(DeprecationWarning, match="`Rows.adds_context`"):
        stream.adds_context = False

    assert stream.add_context_to_records is False
    assert Rows.add_context_to_records is True
    with pytest.warns(DeprecationWarning, match="`Rows.adds_context`"):
        assert stream.adds_context is False


def test_inherited_method_with_the_old_name_is_called() -> None:
    with pytest.warns(DeprecationWarning, match="keeps_partition"):

        class Mine(Rows):
            def keeps_partition(self, context: Any) -> bool:
                return context["id"] != 1

    class Below(Mine):
        """Inherit the method."""

    stream: Any = Below(Rowing())
    assert [stream.retain_partition({"id": n}) for n in (1, 2)] == [False, True]
