"""Bar charts of the HTML report as inline SVG elements, drawn with pygal.

The scripts, comments and styles that pygal adds are removed, so that the page's style sheet with
its light and dark scheme applies to the charts. Each bar has its value as a tooltip.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pygal
from pygal.style import Style

# pygal appends a finder for its plug-ins, which makes Python 3.11 warn at each later import.
for _finder in [each for each in sys.meta_path if isinstance(each, pygal.PluginImportFixer)]:
    sys.meta_path.remove(_finder)

__all__ = ["COLORS", "Plot", "plot_by_stream", "plot_per_run"]

COLORS: Final = 6
"""Number of colors for streams: ``--color-0`` to ``--color-5`` in the report's style sheet."""

_WIDTH, _HEIGHT, _BAR_HEIGHT = 560, 340, 28
_MAX_LABELS: Final = 4
"""Maximum number of runs whose label is shown below a chart."""

_MAX_BARS: Final = 20
"""Maximum number of bars in a chart with one bar per stream."""

_MARGIN: Final = 6
_LEGEND_COLUMNS, _LEGEND_ROW = 3, 21
"""Number of columns of a legend, and height of its rows in pixels."""

_MAX_NAME_LENGTH: Final = 24
_MAX_LEGEND_LENGTH: Final = 14
_REMOVED_ELEMENTS: Final = {"comment", "desc", "script", "style", "title"}  # the title is "Pygal"
_OTHERS: Final = "other streams"
_FONT_SIZES: Final = Style(label_font_size=13, major_label_font_size=13, legend_font_size=14)
"""Font sizes in pixels, for the computation of a chart's layout by pygal.

The report's style sheet sets the same sizes.
"""


@dataclass(frozen=True, slots=True)
class Plot:
    """A bar chart of the HTML report.

    Attributes:
        title: The heading of the chart.
        summary: A text description of the chart for screen readers.
        svg: The text of the SVG element.
        table: The HTML id of the table with the same values.
    """

    title: str
    summary: str
    svg: str
    table: str


def plot_per_run(
    title: str,
    table: str,
    runs: Sequence[str],
    values: Mapping[str, Sequence[float]],
    format_value: Callable[[float], str],
) -> Plot:
    """Return a bar chart with one bar per run. Each bar is stacked by stream.

    If there are more streams than `COLORS`, the values of the last streams are added up under the
    name "other streams".

    Args:
        title: The heading of the chart.
        table: The HTML id of the table with the same values.
        runs: The label of each run, oldest run first.
        values: The values of each stream, one for each run.
        format_value: A function that formats a value with its unit.
    """
    series = _add_up_last(values)
    totals = [sum(each) for each in zip(*values.values(), strict=True)]
    greatest, greatest_run = max(zip(totals, runs, strict=True), key=lambda each: each[0])
    summary = (
        f"Bars for {_count(len(runs), 'run')}, oldest first. The newest run, {runs[-1]}, has"
        f" {format_value(totals[-1])}. The greatest value is {format_value(greatest)}, of the run"
        f" {greatest_run}."
    )
    step = -(-len(runs) // _MAX_LABELS)  # rounded up
    chart = _configure(pygal.StackedBar, format_value, _HEIGHT)
    chart.x_labels = list(runs)
    chart.x_labels_major = list(runs[::step])
    chart.show_minor_x_labels = False
    chart.x_label_rotation = 20
    chart.show_legend = len(series) > 1
    if len(series) % _LEGEND_COLUMNS:  # pygal reserves no space for a row that is not full
        chart.margin_bottom = _MARGIN + _LEGEND_ROW
    for name, numbers in series.items():
        chart.add(name, list(numbers))
    return _render(chart, title, summary, table)


def plot_by_stream(
    title: str,
    table: str,
    values: Mapping[str, float],
    format_value: Callable[[float], str],
) -> Plot:
    """Return a chart with a horizontal bar for each of the 20 streams with the greatest values.

    Args:
        title: The heading of the chart.
        table: The HTML id of the table with the same values.
        values: The value of each stream, with at least one stream.
        format_value: A function that formats a value with its unit.
    """
    names = sorted(values, key=lambda name: -values[name])[:_MAX_BARS]
    summary = (
        f"Bars for {_count(len(names), 'stream')} of {len(values)}. The greatest value is"
        f" {format_value(values[names[0]])}, of {names[0]}; the smallest is"
        f" {format_value(values[names[-1]])}, of {names[-1]}."
    )
    height = 80 + _BAR_HEIGHT * len(names)
    chart = _configure(pygal.HorizontalBar, format_value, height)
    chart.show_legend = False
    names.reverse()  # pygal draws the first bar at the bottom
    chart.x_labels = [_shorten(name) for name in names]
    chart.add(title, [values[name] for name in names])
    return _render(chart, title, summary, table)


def _configure(kind: type[Any], format_value: Callable[[float], str], height: int) -> Any:
    return kind(
        style=_FONT_SIZES,
        width=_WIDTH,
        height=height,
        js=[],
        margin=_MARGIN,
        margin_right=28,
        legend_at_bottom=True,
        legend_at_bottom_columns=_LEGEND_COLUMNS,
        truncate_legend=_MAX_LEGEND_LENGTH,
        truncate_label=_MAX_NAME_LENGTH,
        max_scale=5,
        value_formatter=format_value,
    )


def _render(chart: Any, title: str, summary: str, table: str) -> Plot:
    chart.uuid = f"{table}-{title.lower().replace(' ', '-')}"  # the same file from the same data

    def clean(root: Any) -> Any:
        root.set("role", "img")
        root.set("aria-label", f"{title}. {summary}")
        _clean_svg(root)
        return root

    chart.add_xml_filter(clean)
    svg = chart.render(is_unicode=True, disable_xml_declaration=True)
    for namespace in ("2000/svg", "1999/xlink"):
        for name in ("xmlns", "xmlns:xlink"):
            svg = svg.replace(f' {name}="http://www.w3.org/{namespace}"', "", 1)
    return Plot(title, summary, svg, table)


def _clean_svg(root: Any) -> None:
    """Remove scripts, styles and comments from a chart's SVG element; turn values into tooltips."""
    for parent in list(root.iter()):
        for child in list(parent):
            child.attrib.pop("id", None)  # the same in each plot, for the scripts
            tag = child.tag if isinstance(child.tag, str) else "comment"
            if tag == "desc" and child.get("class") == "value":
                child.tag = "title"
                child.attrib.clear()
            elif tag in _REMOVED_ELEMENTS:
                parent.remove(child)


def _add_up_last(values: Mapping[str, Sequence[float]]) -> dict[str, Sequence[float]]:
    if len(values) <= COLORS:
        return dict(values)
    single, joined = [*values][: COLORS - 1], [*values.values()][COLORS - 1 :]
    other_sums = [sum(each) for each in zip(*joined, strict=True)]
    return {**{name: values[name] for name in single}, _OTHERS: other_sums}


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _shorten(name: str) -> str:
    return name if len(name) <= _MAX_NAME_LENGTH else f"{name[: _MAX_NAME_LENGTH - 1]}…"
