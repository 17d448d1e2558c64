"""The documentation as a site: its navigation, its strict build, and the pages in a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.public_names import find_undocumented_names, read_summary
from tests.docs.test_code_blocks import ROOT
from tests.server_thread import serve_in_thread

CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
API = "reference/api/"
FROM_ELSEWHERE = {
    *("overview.md", "contributing.md", "reporting.md", "changelog.md"),
    *("reference/settings.md", "reference/components.md"),
}
"""Pages of the navigation that are no files in `docs/`; modules have further ones."""

WALK = """
<!DOCTYPE html><body><iframe id="page" width="1200" height="900"></iframe>
<script>
const frame = document.getElementById("page");
const sleep = seconds => new Promise(done => setTimeout(done, seconds * 1000));
const open = address => new Promise(done => { frame.onload = done; frame.src = address; });

async function look(address) {
  await open(address);
  const view = frame.contentWindow, page = frame.contentDocument;
  const pictures = [...page.images];
  await Promise.all(pictures.map(image => { image.loading = "eager"; return image.decode(); }))
    .catch(() => 0);
  const links = [...page.querySelectorAll("a[href]")].map(link => link.href);
  return {
    title: page.querySelector("h1")?.textContent ?? "",
    broken: pictures.filter(image => !image.naturalWidth).map(image => image.src),
    width: page.documentElement.scrollWidth,
    text: page.querySelector("article").innerText,
    links: links.filter(link => link.startsWith(location.origin)),
  };
}

async function search(words) {
  await open("index.html");
  const page = frame.contentDocument;
  const input = page.querySelector("input[data-md-component=search-query]");
  page.querySelector("#__search").click();
  input.focus();
  input.value = words;
  for (let tries = 0; tries < 300; tries++) {
    input.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}));
    input.dispatchEvent(new Event("input", {bubbles: true}));
    await sleep(0.2);
    const results = [...page.querySelectorAll(".md-search-result__link")];
    if (results.length) return results.map(link => link.href);
  }
  return [];
}

async function walk() {
  const found = {pages: {}};
  try {
    for (const address of ADDRESSES) found.pages[address] = await look(address);
    found.results = await search("quarantine");
  } catch (error) {
    found.error = String(error);
  }
  await fetch("/found", {method: "POST", body: JSON.stringify(found)});
}
walk();
</script>
"""


def find_pages(nav: Any) -> Iterator[str]:
    """Yield the pages of a navigation in order."""
    if isinstance(nav, str):
        yield nav
    else:
        for part in nav.values() if isinstance(nav, Mapping) else nav:
            yield from find_pages(part)


PAGES = list(find_pages(CONFIG["nav"]))
MODULES = [page.removeprefix(API).removesuffix(".md") for page in PAGES if page.startswith(API)]


def test_navigation_has_each_page_once() -> None:
    docs = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    modules = {f"{API}{module}.md" for module in MODULES}
    assert len(PAGES) == len(set(PAGES))
    assert set(PAGES) == docs | FROM_ELSEWHERE | modules


def test_table_of_pages_in_the_readme_has_each_page() -> None:
    table = re.findall(r"\]\(docs/(.+?\.md)\)", (ROOT / "README.md").read_text("utf-8"))
    assert {path.name for path in (ROOT / "docs").glob("*.md")} <= set(table)


def test_start_page_leads_to_each_page() -> None:
    start = (ROOT / "docs" / "index.md").read_text("utf-8")
    named = set(re.findall(r"\]\((.+?\.md)", start))
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert pages - named <= {"index.md", "singer-rules.md"}


def test_configuration_is_strict_and_loads_nothing_from_other_hosts() -> None:
    assert CONFIG["strict"]
    assert CONFIG["theme"]["font"] is False
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert f'Repository = "{CONFIG["repo_url"]}"' in project


@pytest.mark.parametrize("module", MODULES)
def test_public_names_of_documented_modules_have_docstrings(module: str) -> None:
    assert find_undocumented_names([module]) == []
    assert read_summary(module)


def test_names_without_a_docstring_are_found(tmp_path, monkeypatch) -> None:
    (tmp_path / "shop.py").write_text(
        '"""A module."""\nfrom parts import bolt as bolt, nut as nut\n'
        '__all__ = ["SIZE", "WIDTH", "bolt", "nut", "sell"]\n'
        'SIZE = 1\n"""A constant."""\nWIDTH = 2\ndef sell(): pass\n'
    )
    (tmp_path / "parts.py").write_text('def bolt():\n    """A bolt."""\ndef nut(): pass\n')
    monkeypatch.setattr("scripts.public_names.ROOT", tmp_path)
    assert find_undocumented_names(["shop"]) == ["shop.WIDTH", "shop.nut", "shop.sell"]


# The built site


def read_page(site: Path, name: str) -> str:
    """Return the HTML of a page."""
    return (site / name / "index.html").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.thorough
def test_reference_is_complete(site: Path) -> None:
    from tap_core.manifest.registry import MODULES as COMPONENTS
    from target_spark.target import TargetSpark

    settings = read_page(site, "reference/settings")
    components = read_page(site, "reference/components")
    names = TargetSpark.config_jsonschema["properties"]
    assert [name for name in names if f">{name}</td>" not in settings] == []
    assert [name for name in COMPONENTS if f'id="{name.lower()}"' not in components] == []
    assert 'id="tap_core.Stream.get_records"' in read_page(site, f"{API}tap_core")
    lines = (site / "llms.txt").read_text("utf-8").splitlines()
    listed = [re.match(r"- \[.+\]\((.+)\): .+", line) for line in lines if line[:1] == "-"]
    assert len(listed) == len(PAGES)
    assert all(line and (site / line[1] / "index.html").exists() for line in listed)


@pytest.mark.slow
@pytest.mark.thorough
def test_pages_show_no_options_of_code_blocks(site: Path) -> None:
    pages_with_options = [
        str(path)
        for path in site.rglob("*.html")
        if re.search(r"skip=(&quot;|\")|```|only=(wheel|repository)", path.read_text("utf-8"))
    ]
    assert pages_with_options == []
    assert '<span class="filename">tap_shop.py</span>' in read_page(site, "http")


@pytest.mark.slow
@pytest.mark.thorough
def test_links_to_files_outside_the_docs_lead_to_the_repository_or_their_page(site: Path) -> None:
    page = read_page(site, "scheduling")
    assert f'href="{CONFIG["repo_url"]}/blob/main/samples/scheduling/load.sh"' in page
    assert 'href="../overview/#install"' in read_page(site, "sql")
    assert 'href="../testing/"' in read_page(site, "overview")


@dataclass
class Visits:
    """Requests of a browser that had no file as response, and its final report."""

    missing: list[str] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)
    is_done: threading.Event = field(default_factory=threading.Event)


class SiteHandler(SimpleHTTPRequestHandler):
    """Handler that serves a folder and takes the browser's report."""

    def __init__(self, *args: Any, visits: Visits, **options: Any) -> None:
        self.visits = visits
        super().__init__(*args, **options)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.visits.results = json.loads(body)
        self.send_response(204)
        self.end_headers()
        self.visits.is_done.set()

    def log_message(self, *args: Any) -> None:
        """Keep the test's output short."""

    def send_error(self, code: int, *args: Any, **options: Any) -> None:
        self.visits.missing.append(self.path)
        super().send_error(code, *args, **options)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.skipif(CHROMIUM is None, reason="needs the program chromium (apt install chromium)")
def test_browser_walks_all_pages_and_finds_words(site: Path, tmp_path: Path) -> None:
    addresses = [
        str(path.relative_to(site)) for path in site.rglob("index.html") if path.parent != site
    ]
    (site / "walk.html").write_text(WALK.replace("ADDRESSES", json.dumps(addresses)))
    visits = Visits()
    handler = partial(SiteHandler, directory=str(site), visits=visits)
    with serve_in_thread(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        origin = f"http://127.0.0.1:{server.server_port}"
        with subprocess.Popen(
            [
                str(CHROMIUM),
                *("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"),
                f"--user-data-dir={tmp_path / 'profile'}",
                f"{origin}/walk.html",
            ],
            stderr=subprocess.DEVNULL,
        ) as browser:
            is_done = visits.is_done.wait(600)
            browser.terminate()
    assert is_done, "the browser has not reported"
    walk = visits.results
    assert "error" not in walk, walk["error"]
    assert len(walk["pages"]) == len(PAGES) - 1  # all but the start page
    for address, page in walk["pages"].items():
        assert page["title"], address
        assert page["broken"] == [], address
        assert page["width"] <= 1200, address
        assert len(page["text"]) > 100, address
    links = {link.partition("#")[0] for page in walk["pages"].values() for link in page["links"]}
    paths = {link.removeprefix(f"{origin}/") for link in links}
    assert [path for path in paths if not find_file(site, path).is_file()] == []
    assert any(re.search(r"/target/.*#quarantine", link) for link in walk["results"])
    assert [path for path in visits.missing if path not in {"/favicon.ico", "/versions.json"}] == []


def find_file(site: Path, path: str) -> Path:
    """Return the file that a server sends for a path."""
    return site / path / "index.html" if path.endswith("/") or not path else site / path
