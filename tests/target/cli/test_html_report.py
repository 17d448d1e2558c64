"""The command `target-spark report` and the setting ``report_html``: one page about all tables."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timezone
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from target_spark.cli.html_report import write_html_report
from target_spark.cli.report_plots import COLORS, plot_by_stream, plot_per_run
from target_spark.cli.table_overview import open_reader
from target_spark.config import settings
from target_spark.config.options import RunInfo
from target_spark.loader.report import COMPLETE, Report
from target_spark.loader.runs_table_writer import append_run, find_versions
from target_spark.tables.runs_table import build_rows
from target_spark.tables.table import QUARANTINE, RUNS
from tests.target.cli.test_last_state import run_command
from tests.target.cli.test_table_overview import write_config
from tests.target.cli.test_target_cli import environment, run, running
from tests.target.loader.test_run_history import append, make_lines
from tests.target.warehouse import ID, SharedEngine, Warehouse, record, schema, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session
    from target_spark.spark.spark_provider import SparkProvider

HOSTILE = '</pre><script>alert("1")</script><img src=x onerror=alert(1)>'
VOID = {"meta", "link", "img", "br", "hr", "input", "base"}
STARTED = 1_790_000_000_000
NEWEST = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
NOW = datetime(2026, 10, 1, tzinfo=timezone.utc)


@dataclass
class Page(HTMLParser):
    """A parsed page: its tags with their attributes, its texts, and the tags left open."""

    html: str
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.opened.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)

    def find(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def make_run(number: int, streams: list[str], outcome: str = COMPLETE) -> list[dict[str, Any]]:
    report = Report()
    facts = {"job": "job", "run": f"run-{number}", "format": "delta"}
    report.add_facts(**facts, started=STARTED + number * 1000)
    for position, stream in enumerate(streams, 1):
        report.record_table(stream, stream, f"/lake/{stream}")
        report.count_received(stream, position * 1000, position * 10_000)
        report.count_commit(stream, position * 1000 - 1, 1, 0.5)
    if number == 1:
        report.record_column_change(streams[0], "price", "double", "widen", old="float")
    report.record_outcome(outcome)
    states = ('{"bookmarks": {"a": {"at": "2026-01-01"}}}', '{"at": 1, "password": "pw-in-state"}')
    return build_rows(report.as_dict(), states, find_versions("delta"))


def write_table(folder: Path, stream: str) -> None:
    times = pa.array([NEWEST, None], pa.timestamp("us", "UTC"))
    write_deltalake(folder / stream, pa.table({"id": [1, 2], "_sdc_received_at": times}))


def write_quarantine(folder: Path, stream: str, *records: str) -> None:
    count = len(records)
    rows = {
        "raw": records,
        "reasons": [[f"id: no integer {number} & more"] for number in range(count)],
        "quarantined_at": pa.array([NOW.replace(hour=hour) for hour in range(count)]),
        "run": ["run-1"] * count,
    }
    write_deltalake(folder / f"{stream}{QUARANTINE}", pa.table(rows))


def write_page(
    folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str, **options: Any
) -> Page:
    config = write_config(folder, **options)
    file = folder / "pages" / "report.html"
    code, out, err = run_command(capsys, "report", "--html", str(file), *config, *arguments)
    assert (code, out) == (0, f"{file}\n"), err
    assert file.stat().st_mode & 0o777 == 0o600
    return Page(file.read_text())


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The page of two runs with a table, a quarantine, and a stream whose table is missing."""
    folder = tmp_path_factory.mktemp("page")
    config = {"path": str(folder), "format": "delta"}
    write_table(folder, "a")
    write_quarantine(folder, "a", '{"id": "ten", "api_key": "key-in-record"}', HOSTILE)
    append(folder, make_run(0, ["a", HOSTILE], f"No. {HOSTILE} at https://me:pw-in-url@host"))
    append(folder, make_run(1, ["a", HOSTILE]))
    options, file = settings.load_options(config), folder / "report.html"
    with open_reader(config, options) as reader:
        write_html_report(config, options, reader, str(file))
    return Page(file.read_text())


def test_page_has_a_heading_for_each_section(page: Page) -> None:
    headings = Counter(tag for tag, _ in page.tags if re.fullmatch("h[1-6]", tag))
    assert headings["h1"] == 1
    assert headings["h2"] == 5
    assert headings["h2"] + headings["h3"] == len(page.find("section"))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    labelled = {
        attributes["aria-labelledby"]
        for _, attributes in page.tags
        if "aria-labelledby" in attributes
    }
    linked = {str(attributes["href"]).removeprefix("#") for attributes in page.find("a")}
    assert labelled | linked <= set(ids)
    assert page.opened == []
    assert page.find("html")[0]["lang"] == "en"


def test_plots_have_alternative_texts_and_tables(page: Page) -> None:
    plots = page.find("svg")
    assert len(plots) == len(page.find("figure")) == 8
    for plot in plots:
        assert plot["role"] == "img"
        assert re.match(r"[A-Z].*\. Bars for \d+ ", str(plot["aria-label"]))
    label = next(
        str(attributes["aria-label"]) for attributes in plots if "received" in str(attributes)
    )
    assert "The newest run, 09-21 14:13:21, has 3,000 rows." in label
    tables = page.find("table")
    assert len(tables) == len(page.find("caption"))
    regions = [div for div in page.find("div") if div.get("class") == "scroll"]
    assert len(regions) == len(tables)
    assert all(
        attributes["tabindex"] == "0" and attributes["role"] == "region" for attributes in regions
    )


def test_page_has_the_data_of_the_runs_and_the_tables(page: Page) -> None:
    text = " ".join(page.text.split())
    assert "2 runs with rows, of 2 streams." in text
    assert "2026-09-21 14:13:21 UTC complete" in text
    assert "2026-09-21 14:13:20 UTC not complete" in text
    assert "2026-09-21 14:13:21 UTC a 1,000 999 0 0 0 1 10.0 kB 1" in text
    assert "2026-09-21 14:13:21 UTC a price widen double float" in text
    assert "2026-01-02 03:04:05 UTC" in text  # the newest row
    assert "id: no integer 1 & more" in text
    assert '"id": "ten"' in text
    assert '"at": "2026-01-01"' in text


def test_unreadable_table_is_shown_with_the_reason(page: Page) -> None:
    assert "has no table: there is no delta table" in page.text
    assert '"id": "ten"' in page.text  # the other stream's


def test_page_loads_nothing_and_runs_nothing(page: Page) -> None:
    assert not {"script", "link", "img", "iframe", "object", "embed", "base", "form"} & {
        tag for tag, _ in page.tags
    }
    addresses = {"src", "srcset", "action", "background", "xlink:href", "data", "poster"}
    for tag, attributes in page.tags:
        assert not addresses & attributes.keys(), tag
        assert not [name for name in attributes if name.startswith("on")], tag
        assert str(attributes.get("href", "#")).startswith("#"), tag
    (policy,) = [meta["content"] for meta in page.find("meta") if "http-equiv" in meta]
    assert str(policy).startswith("default-src 'none'; style-src 'unsafe-inline'")
    style = re.findall(r"<style>(.*?)</style>", page.html, re.DOTALL)
    assert len(style) == 1
    assert "url(" not in style[0]
    assert "@import" not in style[0]


def test_names_and_records_are_text(page: Page) -> None:
    """SEC22: names of streams, records and errors of others are data on the page."""
    assert page.text.count(HOSTILE) >= 6
    assert "<script" not in page.html
    assert "onerror=" not in re.sub(r"&lt;.*?&gt;", "", page.html)


def test_page_has_no_secrets(page: Page) -> None:
    """SEC5: secrets in errors, states and records are redacted."""
    for secret in ("pw-in-url", "pw-in-state", "key-in-record"):
        assert secret not in page.html


def test_secrets_of_the_settings_are_not_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SEC5: a secret of the settings is redacted also within JSON."""
    secret = 'pw"0f-the\\settings'
    append(tmp_path / "tables", make_run(0, ["a"]))
    write_table(tmp_path / "tables", "a")
    write_quarantine(tmp_path / "tables", "a", json.dumps({"id": f"x {secret}"}), f"{secret} {{")
    page = write_page(tmp_path, capsys, spark={"spark.hadoop.fs.s3a.secret.key": secret})
    assert "0f-the" not in page.html


def test_values_of_rows_are_left_out_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAP_CORE_LOG_ROWS", "false")
    append(tmp_path / "tables", make_run(0, ["a"]))
    write_table(tmp_path / "tables", "a")
    write_quarantine(tmp_path / "tables", "a", '{"id": "ten"}')
    page = write_page(tmp_path, capsys)
    assert "ten" not in page.text.split("Quarantine")[-1].split("Bookmarks")[0]
    assert "<object of 1 fields>" in page.text


def test_long_records_are_shortened_and_only_the_newest_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    append(tmp_path / "tables", make_run(0, ["a"]))
    write_table(tmp_path / "tables", "a")
    sizes = (1, 2, 3, 4, 5, 20_000, 2_000_000)
    write_quarantine(tmp_path / "tables", "a", *(json.dumps("x" * size) for size in sizes))
    page = write_page(tmp_path, capsys)
    assert page.text.count("Record of 2026-10-01") == 5
    assert "The record is over 1 MiB and not shown." in page.text
    assert "(20,002 characters in all)" in page.text
    assert '"xxx"' in page.text
    assert '"xx"' not in page.text
    assert len(page.html) < 200_000


def test_records_are_shown_exactly_also_deeply_nested_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    append(tmp_path / "tables", make_run(0, ["a"]))
    write_table(tmp_path / "tables", "a")
    exact = '{"n":0.1000000000000000055,"big":123456789012345678901234567890,"e":1E+400}'
    deep = f"{'[' * 980}1{']' * 980}"
    records = (exact, deep, "[" * 3000, '{"\\ud800":"\\udfff"}', '{"n":1e9999999999999999999}')
    write_quarantine(tmp_path / "tables", "a", *records)
    page = write_page(tmp_path, capsys)
    assert exact in re.sub(r"\s", "", page.text)
    assert page.text.count("Record of 2026-10-01") == 5
    assert "1e9999999999999999999" in page.text


def test_limit_is_the_number_of_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        append(tmp_path / "tables", make_run(number, ["a"]))
    page = write_page(tmp_path, capsys, "--limit", "2")
    assert "2 runs with rows, of 1 stream." in " ".join(page.text.split())


def test_page_without_a_table_of_runs_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, file = write_config(tmp_path), tmp_path / "report.html"
    code, out, err = run_command(capsys, "report", "--html", str(file), *config)
    assert (code, out) == (1, "")
    assert "There is no table of runs" in err
    assert not file.exists()


def test_page_of_an_empty_table_of_runs_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    append(tmp_path / "tables", make_run(0, ["a"]))
    DeltaTable(tmp_path / "tables" / RUNS).delete()
    path = str(tmp_path / "report.html")
    code, _, err = run_command(capsys, "report", "--html", path, *write_config(tmp_path))
    assert (code, "is empty" in err) == (1, True), err


def test_file_that_cannot_be_written_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    append(tmp_path / "tables", make_run(0, ["a"]))
    config = write_config(tmp_path)
    code, out, err = run_command(capsys, "report", "--html", str(tmp_path), *config)
    assert (code, out) == (1, "")
    assert err == (
        f"{tmp_path} cannot be written: Is a directory."
        " Name a file in a folder that this user may write.\n"
    )


def test_missing_library_is_named_with_its_extra(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    config = write_config(tmp_path)
    code, _, err = run_command(capsys, "report", "--html", str(tmp_path / "x.html"), *config)
    assert code == 1
    assert "needs the package jinja2" in err
    assert "pip install 'tap-core-sdk[report]'" in err


def test_streams_beyond_the_colors_share_one() -> None:
    values = {f"s{number}": [1.0, 2.0] for number in range(COLORS + 3)}
    plot = plot_per_run("Rows", "t", ["first", "second"], values, "{:.0f} rows".format)
    assert len(set(re.findall(r'class="series (serie-\d+)', plot.svg))) == COLORS
    assert "other streams" in plot.svg
    assert f"second, has {2 * (COLORS + 3)} rows" in plot.summary
    assert plot == plot_per_run("Rows", "t", ["first", "second"], values, "{:.0f} rows".format)


@pytest.mark.parametrize("streams", range(2, COLORS + 2))
def test_legend_of_a_plot_is_within_the_plot(streams: int) -> None:
    values = {f"stream {number}": [1, 2] for number in range(streams)}
    svg = plot_per_run("Rows", "t", ["first", "second"], values, str).svg
    height = float(re.search(r'viewBox="0 0 \d+ (\d+)"', svg)[1])
    top = float(re.search(r'translate\(\d+, (\d+)\)" class="legends"', svg)[1])
    rows = re.findall(r'class="legend [^>]*><rect x="[\d.]+" y="([\d.]+)"', svg)
    assert len(rows) == min(streams, COLORS)
    assert top + max(map(float, rows)) + 12 <= height


def test_summary_names_the_extremes() -> None:
    plot = plot_by_stream("Size", "t", {"a": 1, "b": 3, "c": 2}, "{:.0f} MB".format)
    assert plot.summary == (
        "Bars for 3 streams of 3. The greatest value is 3 MB, of b; the smallest is 1 MB, of a."
    )


@pytest.mark.thorough
def test_run_writes_the_page_and_never_fails_because_of_it(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    env = environment(JAVA_HOME=str(tmp_path / "no-java"))
    options = {"format": "delta", "small_batches": "delta-rs", "report_html": str(file)}
    data = make_lines(schema("a", ID), record("a", id=1), state(1))
    process = run(tmp_path, data, env=env, **options)
    assert (process.returncode, process.stdout) == (0, b'{"at": 1}\n')
    assert "1 run with rows, of 1 stream." in " ".join(Page(file.read_text()).text.split())

    (tmp_path / "file").write_text("")
    process = run(
        tmp_path, data, env=env, **{**options, "report_html": str(tmp_path / "file" / "x")}
    )
    assert (process.returncode, process.stdout) == (0, b'{"at": 1}\n')
    assert b"The HTML report (setting report_html) could not be written: " in process.stderr


@pytest.mark.thorough
def test_stopped_run_writes_no_page(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    options = {"format": "delta", "small_batches": "delta-rs", "flush_rows": 1}
    with running(tmp_path, **options, report_html=str(file)) as target:
        target.send(make_lines(schema("a", ID), record("a", id=1), state(1)))
        target.until(lambda: bool(target.lines))
        target.process.send_signal(signal.SIGTERM)
        assert target.end() == 0
    assert (tmp_path / "tables" / RUNS).exists()
    assert not file.exists()


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize("table_format", ["iceberg", "parquet", "delta"])
def test_page_shows_the_tables_of_every_format(
    table_format: str, spark_session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    from target_spark.cli.table_reader import TableReader

    warehouse = Warehouse(spark_session, spark, tmp_path / "tables", table_format)
    warehouse.load(schema("a", ID), record("a", id=1), record("a", id="x"))
    config = {"path": str(warehouse.folder), "format": table_format}
    options, file = settings.load_options(config), tmp_path / "report.html"
    engine = cast("SparkProvider", SharedEngine(spark_session))
    append_run(engine, options, RunInfo("job", "run-0", STARTED), make_run(0, ["a"]))
    write_html_report(config, options, TableReader(table_format, lambda: spark), str(file))
    page = Page(file.read_text())
    assert "1 run with rows, of 1 stream." in " ".join(page.text.split())
    assert '"id":"x"' in re.sub(r"\s", "", page.text)


CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
MEASURE = """
<!DOCTYPE html><body><iframe id="page" style="width:WIDTHpx;height:900px;border:0"></iframe>
<script>
const frame = document.getElementById("page");
function channel(part) {
  return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
}
function luminance(color) {
  const [r, g, b] = color.match(/[\\d.]+/g).map(part => channel(part / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function contrast(a, b) {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
}
frame.onload = () => {
  const page = frame.contentDocument, view = frame.contentWindow;
  const back = view.getComputedStyle(page.body).backgroundColor;
  const texts = [...page.querySelectorAll("h1,p,a,td,th,summary,figcaption,.bad,.good")];
  const bars = [...page.querySelectorAll("svg .series rect")];
  const found = {
    width: page.documentElement.scrollWidth,
    dark: luminance(back) < 0.5,
    text: Math.min(...texts.map(e => contrast(view.getComputedStyle(e).color, back))),
    bars: Math.min(...bars.map(e => contrast(view.getComputedStyle(e).fill, back))),
    plots: [...page.querySelectorAll("svg")].every(e => e.getBoundingClientRect().height > 50),
    focusable: page.querySelectorAll("a[href], summary, [tabindex='0']").length,
    scripts: page.scripts.length,
  };
  document.body.textContent = "FOUND " + JSON.stringify(found);
};
frame.srcdoc = SOURCE;
</script>
"""


@pytest.mark.thorough
@pytest.mark.skipif(CHROMIUM is None, reason="needs the program chromium (apt install chromium)")
@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("width", [320, 1200])
def test_browser_shows_the_page_on_phones_and_in_both_schemes(
    page: Page, tmp_path: Path, width: int, scheme: str
) -> None:
    source = json.dumps(page.html).replace("<", "\\u003c")
    wrapper = tmp_path / "wrapper.html"
    wrapper.write_text(MEASURE.replace("WIDTH", str(width)).replace("SOURCE", source))
    process = subprocess.run(
        [
            str(CHROMIUM),
            *("--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}",
            wrapper.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    match = re.search(r"FOUND (\{.*\})", process.stdout)
    assert match, process.stdout[-500:] + process.stderr[-500:]
    measured = json.loads(match[1])
    assert measured["width"] <= width
    assert measured["dark"] == (scheme == "dark")
    assert measured["text"] >= 4.5  # WCAG 2.2, 1.4.3
    assert measured["bars"] >= 3  # WCAG 2.2, 1.4.11
    assert measured["plots"]
    assert measured["focusable"] > 10
    assert measured["scripts"] == 0
