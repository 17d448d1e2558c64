"""Comparison of cursor values by their date-time formats."""

from __future__ import annotations

import datetime as dt

from hypothesis import example, given
from hypothesis import strategies as st

from tap_core.incremental.cursor_comparator import make_comparator
from tap_core.state.bookmark_cursor import BookmarkCursor
from tests.incremental.apis import cursor

FORMATS = ["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%fZ", "%Y-%m-%d", "%s"]
BASE = dt.datetime(2023, 1, 1, tzinfo=dt.timezone.utc)

seconds = st.integers(0, 40_000_000)
forms = st.sampled_from(FORMATS)
nonsense = st.sampled_from(["soon", "2023-99-99T00:00:00Z", "", None, True, {}, "9999-99-99"])


def text(number: int, form: str) -> str:
    moment = BASE + dt.timedelta(seconds=number)
    return str(int(moment.timestamp())) if form == "%s" else moment.strftime(form)


@example(values=[(0, "%Y-%m-%dT%H:%M:%SZ"), "2023-99-99T00:00:00Z"], settles=set())
@example(values=[(0, "%Y-%m-%dT%H:%M:%S.%fZ"), "2023-01-02T00:00:00.00x000Z"], settles=set())
@given(
    values=st.lists(st.one_of(st.tuples(seconds, forms), nonsense), max_size=30),
    settles=st.sets(st.integers(0, 30)),
)
def test_highest_cursor_value_is_kept_in_the_format_of_the_cursor(
    values: list, settles: set
) -> None:
    """Values may have different formats, and the state may be read at any time."""
    declared = cursor(cursor_datetime_formats=FORMATS)
    order, state = make_comparator(declared, "s"), {}
    follows = BookmarkCursor(
        state, replication_key="at", is_sorted=False, check_sorted=True, order=order
    )
    best = None
    for number, value in enumerate(values):
        cursor_value = text(*value) if isinstance(value, tuple) else value
        follows.advance(cursor_value)
        instant = order.instant(cursor_value)
        best = best if instant is None else max(instant, best or instant)
        if number in settles:
            follows.settle()
    follows.settle()
    bookmark = state.get("progress_markers", {}).get("replication_key_value")
    assert bookmark == (None if best is None else declared.format.write(best))


def test_unparsable_cursor_value_is_compared_as_text_and_kept() -> None:
    order = make_comparator(cursor(), "s")
    assert order.newer_or_equal("soon", "later") is True
    assert order.to_state_value("soon") == "soon"
    assert not order.is_usable({})
    assert not order.is_plain("soon")
    assert not make_comparator(
        cursor(datetime_format="%Y-%m-%d", start_datetime="2023-01-01"), "s"
    ).is_plain("2023-01-01")
