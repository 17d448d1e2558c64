"""Folder taps: local files, an in-memory file system, and bookmarks per file."""

from __future__ import annotations

import csv
import io
import json
import os
from contextlib import redirect_stdout
from datetime import datetime, timezone
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.registry import known_implementations

from tap_core import typing as th
from tap_core.contrib.filesystem import FileStream, FolderTap
from tap_core.exceptions import ConfigValidationError
from tap_core.filesystem.tap import _open_folder, file_path_to_stream_name
from tap_core.testing import get_tap_test_class


class CSVStream(FileStream):
    primary_keys = ("_sdc_path", "id")

    def _rows(self, path):
        with self.filesystem.open(path, "rb") as file:
            lines = file.read().decode().splitlines()
        return csv.DictReader(lines, delimiter=self.config["delimiter"])

    def get_schema(self, path):
        names = self._rows(path).fieldnames
        return th.PropertiesList(*(th.Property(name, th.StringType) for name in names)).to_dict()

    def read_file(self, path):
        self.read.append(path)
        yield from self._rows(path)

    read = []


class CSVTap(FolderTap[CSVStream]):
    name = "tap-folder"
    valid_extensions = (".csv", ".CSV")
    default_stream_class = CSVStream
    config_jsonschema = {
        "properties": {"delimiter": {"type": "string", "default": ","}},
        "required": ["delimiter"],
    }


CHANGED = datetime(2024, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


def write_file(path, text="id,name\n1,one\n2,two\n", changed=CHANGED):
    path.write_text(text)
    os.utime(path, (changed.timestamp(),) * 2)


@pytest.fixture
def folder(tmp_path):
    write_file(tmp_path / "b.csv")
    write_file(tmp_path / "a.long.csv", "id\n9\n")
    write_file(tmp_path / "c.txt")
    (tmp_path / "below.csv").mkdir()
    write_file(tmp_path / "below.csv" / "d.csv")
    CSVStream.read = []
    return tmp_path


def sync_folder(folder, state=None, tap=CSVTap, **config):
    settings = {"path": str(folder), "read_mode": "one_stream_per_file", **config}
    created_tap = tap(config=settings, state=state)
    out = io.StringIO()
    with redirect_stdout(out):
        created_tap.sync_all()
    return [json.loads(line) for line in out.getvalue().splitlines()]


def records(messages):
    return [message["record"] for message in messages if message["type"] == "RECORD"]


def last_state(messages):
    return [message["value"] for message in messages if message["type"] == "STATE"][-1]


def test_one_stream_per_file_mode_makes_a_stream_of_each_file(folder):
    messages = sync_folder(folder)
    schema_messages = [message for message in messages if message["type"] == "SCHEMA"]
    assert [message["stream"] for message in schema_messages] == ["a.long", "b"]
    assert list(schema_messages[1]["schema"]["properties"]) == [
        "id", "name", "_sdc_path", "_sdc_modified_at",
    ]  # fmt: skip
    assert schema_messages[1]["bookmark_properties"] == ["_sdc_modified_at"]
    assert records(messages)[1] == {
        "id": "1",
        "name": "one",
        "_sdc_path": "./b.csv",
        "_sdc_modified_at": "2024-01-02T03:04:05.000000+00:00",
    }


def test_links_to_files_are_read(folder):
    (folder / "link.csv").symlink_to(folder / "c.txt")
    (folder / "dead.csv").symlink_to("nowhere")
    (folder / "folder.csv").symlink_to(folder / "below.csv")
    assert list(
        CSVTap(config={"path": str(folder), "read_mode": "one_stream_per_file"}).streams
    ) == [
        "a.long",
        "b",
        "link",
    ]


def test_merge_mode_makes_one_stream_of_all_files(folder):
    write_file(folder / "e.CSV", "id,name\n7,seven\n")
    messages = sync_folder(folder, read_mode="merge", stream_name="all")
    assert {item["stream"] for item in messages if item["type"] != "STATE"} == {"all"}
    assert [(item["_sdc_path"], item["id"]) for item in records(messages)] == [
        ("./a.long.csv", "9"), ("./b.csv", "1"), ("./b.csv", "2"), ("./e.CSV", "7"),
    ]  # fmt: skip
    unnamed = CSVTap(config={"path": str(folder), "read_mode": "merge"})
    assert list(unnamed.streams) == ["files"]


def test_changed_file_is_read_again(folder):
    state = last_state(sync_folder(folder))
    assert state["bookmarks"]["b"] == {
        "partitions": [
            {
                "context": {"_sdc_path": "./b.csv"},
                "replication_key": "_sdc_modified_at",
                "replication_key_value": "2024-01-02T03:04:05.000000+00:00",
            }
        ]
    }
    write_file(folder / "b.csv", changed=CHANGED.replace(year=2023))
    write_file(folder / "a.long.csv", "id\n10\n", changed=CHANGED.replace(year=2025))
    CSVStream.read.clear()
    second_sync = sync_folder(folder, state)
    assert [record["id"] for record in records(second_sync)] == ["10"]
    assert CSVStream.read == ["./a.long.csv"]
    assert last_state(second_sync)["bookmarks"]["a.long"]["partitions"][0][
        "replication_key_value"
    ] == ("2025-01-02T03:04:05.000000+00:00")
    assert last_state(second_sync)["bookmarks"]["b"] == state["bookmarks"]["b"]


def test_full_table_sync_reads_every_file(folder):
    state = last_state(sync_folder(folder))
    write_file(folder / "b.csv", changed=CHANGED.replace(year=2023))
    tap = CSVTap(config={"path": str(folder), "read_mode": "one_stream_per_file"}, state=state)
    for stream in tap.streams.values():
        stream.forced_replication_method = "FULL_TABLE"
    with redirect_stdout(io.StringIO()):
        tap.sync_all()
    assert CSVStream.read[-2:] == ["./a.long.csv", "./b.csv"]


def test_files_of_an_fsspec_file_system_are_read(tmp_path):
    folder = f"/{tmp_path.name}"
    fsspec.filesystem("memory").pipe(f"{folder}/x.csv", b"id,name\n5,five\n")
    [row] = records(sync_folder(folder, filesystem="memory"))
    assert (row["id"], row["_sdc_path"]) == ("5", "x.csv")
    assert row["_sdc_modified_at"] > "2024"


def test_files_of_other_folders_are_left_out(folder, monkeypatch):
    """A server chooses the paths that it lists."""
    listed = [{"name": name, "type": "file"} for name in ("b.csv", "../x.csv", "y/z.csv")]
    monkeypatch.setattr(DirFileSystem, "ls", lambda *_args, **_options: listed)
    tap = CSVTap(config={"path": str(folder), "read_mode": "one_stream_per_file"})
    assert list(tap.streams) == ["b"]


def test_list_with_urls_outside_of_the_folder_is_an_error(folder, monkeypatch):
    """The library fsspec accepts links that differ in http and https, and then fails."""

    def fail(*_args, **_options):
        raise AssertionError

    monkeypatch.setattr(DirFileSystem, "ls", fail)
    with pytest.raises(ConfigValidationError, match="another host or scheme"):
        sync_folder(folder)


def test_http_folder_keeps_to_its_host(monkeypatch):
    """SEC25: a redirect of the server leads to no other host."""
    arguments = {}
    monkeypatch.setattr(
        "fsspec.implementations.dirfs.DirFileSystem", lambda **kwargs: arguments.update(kwargs)
    )
    _open_folder("http", "http://example.com/data", {})
    assert arguments["target_options"].keys() == {"get_client"}


def test_file_system_without_modification_times_reads_every_file(folder, caplog):
    class Timeless(CSVTap):
        @property
        def fs(self):
            file_system = CSVTap.fs.func(self)
            file_system.modified = self.modified
            return file_system

        def modified(self, path):
            raise NotImplementedError

    rows = records(sync_folder(folder, tap=Timeless))
    assert len(rows) == 3
    assert rows[0]["_sdc_modified_at"] > "2024-02"
    assert "does not say when a file was changed: './b.csv'" in caplog.text

    class Naive(Timeless):
        def modified(self, path):
            return CHANGED.replace(tzinfo=None)

    [row, *_] = records(sync_folder(folder, tap=Naive))
    assert row["_sdc_modified_at"] == "2024-01-02T03:04:05.000000+00:00"


@pytest.mark.parametrize(
    "config, message",
    [
        ({"path": "/nowhere/at/all"}, "'path': '/nowhere/at/all' does not exist or is not"),
        ({"filesystem": "ftp"}, "'ftp' is required where 'filesystem' is 'ftp'"),
        ({"filesystem": "sftp"}, "'sftp' is required"),
        ({"filesystem": "odd"}, "'filesystem': 'odd' cannot be used: Protocol not known: odd"),
        ({"filesystem": "unpackaged"}, "'filesystem': 'unpackaged' cannot be used: needs a pac"),
        ({"read_mode": "merge", "path": "EMPTY"}, "Stream 'files': there are no files"),
        ({"read_mode": "odd"}, "'odd' is not one of"),
    ],
)
def test_invalid_folder_configuration_is_rejected(folder, config, message, monkeypatch):
    unpackaged = {"class": "not_installed.System", "err": "needs a package"}
    monkeypatch.setitem(known_implementations, "unpackaged", unpackaged)
    (folder / "empty").mkdir()
    if config.get("path") == "EMPTY":
        config = {**config, "path": str(folder / "empty")}
    with pytest.raises(ConfigValidationError, match=message):
        sync_folder(folder, **config)


def test_get_records_without_a_file_context_is_rejected(folder):
    tap = CSVTap(config={"path": str(folder), "read_mode": "merge"})
    with pytest.raises(RuntimeError, match="'files' needs the context of a file"):
        list(tap.streams["files"].get_records(None))


def test_settings_are_those_of_folder_taps_and_of_taps():
    about = CSVTap._get_about_info()
    assert list(about.settings["properties"])[:7] == [
        "delimiter", "filesystem", "path", "read_mode", "stream_name", "ftp", "sftp",
    ]  # fmt: skip
    assert {"batch_config", "stream_maps"} <= about.settings["properties"].keys()
    assert set(about.settings["required"]) == {
        "delimiter", "filesystem", "path", "read_mode", "stream_name",
    }  # fmt: skip
    assert CSVTap.config_jsonschema["required"] == ["delimiter"]


def test_stream_name_is_derived_from_the_file_path():
    assert file_path_to_stream_name("./a/b/c.csv") == "a__b__c"
    assert file_path_to_stream_name("c.tar.gz") == "c.tar"


TestStandard = get_tap_test_class(
    CSVTap,
    config={"path": str(Path(__file__).parent / "people"), "read_mode": "merge"},
)


def test_files_with_the_same_stream_name_are_an_error(folder):
    class TwoSuffixes(CSVTap):
        valid_extensions = (".csv", ".tsv")

    write_file(folder / "b.tsv", "id,name\n3,three\n")
    with pytest.raises(ConfigValidationError) as error:
        sync_folder(folder, tap=TwoSuffixes)
    fault = "'path': ./b.csv and ./b.tsv have the same stream name 'b': rename all but one, or set"
    assert error.value.errors == [f"{fault} 'read_mode' to 'merge'"]
    assert len(records(sync_folder(folder, tap=TwoSuffixes, read_mode="merge"))) == 4
