"""`tap-manifest try`: a stream of a manifest, shown with its requests and its schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tap_core.manifest.cli import main
from tests.http.server import page, serving
from tests.manifest.running import list_paths, manifest, stream


def test_try_shows_requests_records_and_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = manifest(tmp_path, stream("items", "/items"), stream("others", "/others"))
    with serving() as server:
        server.answers(page({"id": "a", "at": "now"}, {"id": "b", "at": "now"}))
        (tmp_path / "c.json").write_text(json.dumps({"url": server.url}))
        arguments = [
            "try",
            str(path),
            "items",
            "--config",
            str(tmp_path / "c.json"),
            "--limit",
            "1",
        ]
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 0
        assert list_paths(server) == ["/items"]
    output = capsys.readouterr().out
    assert output.startswith(f"GET {server.url}/items: 200\n\n1 record of stream 'items'\n")
    assert "id        string  integer   other type\n" in output
    assert output.endswith("\n1 difference between these records and the schema.\n")


def test_try_with_an_unknown_stream_names_a_similar_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = manifest(tmp_path, stream("items", "/items"))
    (tmp_path / "c.json").write_text('{"url": "http://127.0.0.1:1"}')
    with pytest.raises(SystemExit) as caught:
        main(["try", str(path), "item", "--config", str(tmp_path / "c.json")])
    assert caught.value.code == 1
    assert "The tap has no stream 'item'. Did you mean 'items'?" in capsys.readouterr().err


def test_try_without_manifest_or_stream_prints_the_usage(capsys: pytest.CaptureFixture[str]):
    for arguments in ([], ["m.yaml"], ["--limit", "5"]):
        assert main(["try", *arguments]) == 2
        assert "tap-manifest try [OPTIONS] FILE STREAM" in capsys.readouterr().err
    assert main(["try", "--help"]) == 0
    assert main(["try", "there-is-none.yaml", "items"]) == 1
    assert "there-is-none.yaml" in capsys.readouterr().err
