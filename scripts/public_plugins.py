"""Public plugins and manifests that `try_public_plugins.py` installs and runs."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FILES, SERVER, DATABASE = "local files", "an HTTP server on loopback", "a PostgreSQL on loopback"


@dataclass(frozen=True)
class Plugin:
    """A public plugin of singer_sdk and how it is run.

    Attributes:
        package: The name on the package index.
        version: The version that is installed.
        kind: ``tap``, ``target`` or ``mapper``.
        program: The console script.
        config: The settings; ``{url}`` and ``{folder}`` stand for the server and the folder of
            a run.
        source: Kind of source or destination; empty if a sync needs an account.
        files: Names and contents of the files in the folder of a run.
        replies: Paths of the server and the JSON values or texts that it sends; ``{}`` for others.
        requires: Packages that the plugin needs and does not name.
        is_selected: True if a sync gets a catalog with all streams selected.
        python: The oldest version of Python that the plugin accepts, if it is above 3.11.
    """

    package: str
    version: str
    kind: str
    program: str
    config: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    replies: Mapping[str, Any] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    is_selected: bool = False
    python: str = ""


@dataclass(frozen=True)
class Manifest:
    """A public package with a manifest of Airbyte.

    Attributes:
        package: The name on the package index.
        version: The version that is installed.
    """

    package: str
    version: str

    @property
    def module(self) -> str:
        """The name of the Python module."""
        return self.package.removeprefix("airbyte-").replace("-", "_")


_LINES = '{"id": 1, "name": "Lübeck", "at": "2026-01-02T03:04:05Z"}\n{"id": 2, "name": null}\n'
_CSV = "id,name,price,day\n1,Lübeck,1.50,2026-01-02\n2,Rome,,2026-01-03\n"
_FEED = """<?xml version="1.0"?><rss version="2.0"><channel><title>News</title>
<item><guid>a</guid><title>One</title><link>http://a.test/1</link>
<pubDate>Thu, 01 Jan 2026 00:00:00 GMT</pubDate></item>
<item><guid>b</guid><title>Two</title><link>http://a.test/2</link>
<pubDate>Fri, 02 Jan 2026 00:00:00 GMT</pubDate></item></channel></rss>"""
_HEALTH = """<HealthData><Workout workoutActivityType="Running" duration="30" durationUnit="min"
 sourceVersion="1" creationDate="2026-01-01" startDate="2026-01-01" endDate="2026-01-01">
<MetadataEntry key="indoor" value="0"/></Workout></HealthData>"""
_GEO = json.dumps(
    {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "properties": {"id": 1, "name": "Lübeck"},
                "geometry": {"type": "Point", "coordinates": [10.68, 53.86]},
            }
        ],
    }
)
_DBF = (  # dBASE III: the header, the columns ID and NAME, two rows
    struct.pack("<4BIHH20x", 3, 126, 1, 2, 2, 97, 13)
    + struct.pack("<11sc4xBB14x", b"ID", b"N", 4, 0)
    + struct.pack("<11sc4xBB14x", b"NAME", b"C", 8, 0)
    + b"\r    1Luebeck     2Rome    \x1a"
)
_OLD = ("setuptools<81",)  # its pkg_resources is imported by the library fs
_TIME = "2026-01-02T03:04:05Z"
_START = "2025-12-01T00:00:00Z"
_NAMED = {"id": 1, "name": "one", "created_at": _TIME}
_DAY = {"created_at": _TIME, "updated_at": _TIME}

PLUGINS = (
    Plugin(
        "tap-jsonl", "0.3.1", "tap", "tap-jsonl",
        {"path": "{folder}/rows.jsonl", "primary_keys": ["id"]}, FILES, {"rows.jsonl": _LINES},
    ),
    Plugin(
        "tap-jsonfile", "0.1.2", "tap", "tap-jsonfile", {"paths": ["{folder}/rows.json"]}, FILES,
        {"rows.json": json.dumps([{"id": 1, "tags": ["a"]}, {"id": 2, "tags": []}])},
    ),
    Plugin(
        "tap-spreadsheets", "1.1.2", "tap", "tap-spreadsheets",
        {"files": [{"path": "{folder}/cities.csv", "format": "csv", "primary_keys": ["id"]}]},
        FILES, {"cities.csv": _CSV},
    ),
    Plugin(
        "tap-geo", "0.3.1", "tap", "tap-geo",
        {"files": [{"paths": ["{folder}/cities.geojson"], "primary_keys": ["id"]}]},
        FILES, {"cities.geojson": _GEO},
    ),
    Plugin(
        "tap-applehealth", "0.0.4", "tap", "tap-applehealth", {"file_path": "{folder}/export.xml"},
        FILES, {"export.xml": _HEALTH}, requires=_OLD,
    ),
    Plugin(
        "tap-dimdate", "0.1.0", "tap", "tap-dimdate",
        {"start_date": "2026-01-01", "end_date": "2026-12-31"}, "dates that it computes",
        requires=_OLD,
    ),
    Plugin(
        "tap-dbf", "0.1.25", "tap", "tap-dbf", {"path": "{folder}/cities.dbf"}, FILES,
        {"cities.dbf": _DBF},
    ),
    Plugin(
        "tap-feed", "1.1.1", "tap", "tap-feed",
        {
            "feed_urls": ["{url}/feed"],
            "feed_fields": ["title"],
            "feed_entry_fields": ["id", "title", "link"],
            "feed_entry_replication_key": "published",
            "start_date": "2020-01-01",
        },
        SERVER, replies={"/feed": _FEED}, requires=_OLD,
    ),
    Plugin(
        "tap-rest-api-msdk", "1.4.2", "tap", "tap-rest-api-msdk",
        {
            "api_url": "{url}",
            "streams": [
                {
                    "name": "cities",
                    "path": "/cities",
                    "records_path": "$.data[*]",
                    "primary_keys": ["id"],
                    "replication_key": "created_at",
                }
            ],
        },
        SERVER, replies={"/cities": {"data": [_NAMED, {**_NAMED, "id": 2, "geo": {"lat": 1.5}}]}},
        requires=_OLD,
    ),
    Plugin(
        "tap-forem", "0.5.4", "tap", "tap-forem",
        {"api_key": "none", "tag": "python", "api_url": "{url}"}, SERVER,
        replies={
            "/articles": [{"id": 1, "published_timestamp": _TIME, "comments_count": 1}],
            "/comments": [{"id_code": "a", "type_of": "comment", "created_at": _TIME}],
        },
    ),
    Plugin(
        "meltano-tap-circle-ci", "0.6.6", "tap", "tap-circle-ci",
        {"token": "none", "org_slug": "gh/none", "base_url": "{url}"}, SERVER,
        replies={
            "/pipeline": {"items": [{"id": "p1", "project_slug": "gh/none/a", **_DAY}]},
            "/pipeline/p1/workflow": {"items": [{"id": "w1", "name": "w", **_DAY}]},
            "/workflow/w1/job": {"items": [{"id": "j1", "name": "j", "started_at": _TIME}]},
            "/context": {"items": [{"id": "c1", "name": "c", "created_at": _TIME}]},
        },
    ),
    Plugin(
        "tap-dbt", "0.17.0", "tap", "tap-dbt",
        {"api_key": "none", "account_ids": ["1"], "base_url": "{url}/api/v2"}, SERVER,
        replies={
            f"/api/v2/accounts{path}": {"data": [{**_NAMED, **_DAY, "account_id": 1, **more}]}
            for path, more in (
                ("", {}),
                ("/1/projects", {}),
                ("/1/jobs", {}),
                ("/1/runs", {"finished_at": _TIME, "artifacts_saved": False}),
            )
        },
    ),
    Plugin(
        "tap-freshservice", "0.12.0", "tap", "tap-freshservice",
        {"api_key": "none", "url_base": "{url}", "request_delay_seconds": 0}, SERVER,
        replies={
            "/agents": {"agents": [{"id": 1, "first_name": "Ann", **_DAY}]},
            "/groups": {"groups": [{"id": 2, "name": "g", **_DAY}]},
            "/departments": {"departments": [{"id": 3, "name": "d", **_DAY}]},
        },
    ),
    Plugin(
        "tap-openmeteo", "0.2.1", "tap", "tap-openmeteo",
        {
            "api_url": "{url}",
            "locations": [{"name": "Lübeck", "latitude": 53.86, "longitude": 10.68}],
            "hourly_variables": ["temperature_2m"],
            "daily_variables": ["weather_code"],
            "streams_to_sync": ["weather_hourly", "weather_daily"],
        },
        SERVER,
        replies={
            "/v1/forecast": {
                "latitude": 53.86,
                "longitude": 10.68,
                "timezone": "Europe/Berlin",
                "hourly_units": {"temperature_2m": "C"},
                "hourly": {"time": ["2026-01-02T03:00"], "temperature_2m": [1.5]},
                "daily_units": {"weather_code": "wmo code"},
                "daily": {"time": ["2026-01-02"], "weather_code": [3]},
            }
        },
    ),
    Plugin(
        "tap-jotform", "0.7.8", "tap", "tap-jotform", {"api_key": "none", "api_url": "{url}"},
        SERVER, python="3.13",
        replies={
            f"/{path}": {"content": rows, "limit-left": 1}
            for path, rows in (
                ("user/forms", [{"id": "1", "title": "One", **_DAY}]),
                ("form/1/questions", {}),
                ("user/submissions", [{"id": "2", "form_id": "1", **_DAY}]),
                ("user/reports", []),
                ("user/history", []),
                ("user/folders", []),
                ("user/labels", []),
            )
        },
    ),
    Plugin(
        "tap-zammad", "0.0.5", "tap", "tap-zammad",
        {"auth_token": "none", "api_base_url": "{url}"}, SERVER, requires=_OLD,
        replies={
            "/users/search": [{**_NAMED, **_DAY}],
            "/organizations/search": [],
            "/groups/": [{**_NAMED, **_DAY}],
        },
    ),
    Plugin(
        "tap-openproject", "0.3.0", "tap", "tap-openproject",
        {"api_key": "none", "base_url": "{url}"}, SERVER, requires=_OLD,
        replies={
            "/projects": {
                "total": 1,
                "count": 1,
                "_embedded": {
                    "elements": [
                        {"id": 1, "identifier": "one", "name": "One",
                         "createdAt": _TIME, "updatedAt": _TIME}
                    ]
                },
            }
        },
    ),
    Plugin("meltanolabs-tap-postgres", "0.10.0", "tap", "tap-postgres",
           {"filter_schemas": ["public"]}, DATABASE, is_selected=True),
    Plugin("meltanolabs-tap-github", "1.30.1", "tap", "tap-github",
           {"auth_token": "none", "repositories": ["a/b"]}),
    Plugin("meltanolabs-tap-mongodb", "0.4.1", "tap", "tap-mongodb"),
    Plugin("tap-stackexchange", "0.1.2", "tap", "tap-stackexchange", {"tags": ["python"]}),
    Plugin("tap-planetscaleapi", "0.4.5", "tap", "tap-planetscaleapi",
           {"service_token_id": "none", "service_token": "none"}),
    Plugin("tap-workato", "0.2.0", "tap", "tap-workato", {"api_token": "none"}, requires=_OLD),
    Plugin("tap-sleeper", "0.5.3", "tap", "tap-sleeper", {"sport": "nfl"}, requires=_OLD),
    Plugin("tap-airlines-arg", "1.0.1", "tap", "tap-airlines-arg",
           {"api_url": "{url}", "api_key": "none", "airports": ["AEP"]}),
    Plugin(
        "tap-erpnext", "0.2.12", "tap", "tap-erpnext",
        {"api_url": "{url}", "api_key": "none", "api_secret": "none"}, SERVER,
        replies={
            "/api/resource/DocType": {"data": [{"name": "Item", "istable": 0}]},
            "/api/resource/Item": {"data": [{"name": "A", "modified": _TIME, "price": 1.5}]},
        },
    ),
    Plugin("tap-readthedocs", "0.7.3", "tap", "tap-readthedocs", {"token": "none"}, python="3.13"),
    Plugin("tap-shortcut", "0.7.6", "tap", "tap-shortcut", {"token": "none"}, python="3.13"),
    Plugin("tap-geekbot", "0.6.4", "tap", "tap-geekbot", {"api_key": "none"}, python="3.13"),
    Plugin("tap-fedidb", "0.6.0", "tap", "tap-fedidb", {}, python="3.13"),
    Plugin(
        "tap-redcap", "1.1.5", "tap", "tap-redcap",
        {
            "token": "none",
            "base_url": "{url}/api/",
            "api_timeout": 5,
            "forms": ["baseline"],
            "action": "export",
            "content": "record",
            "format": "json",
            "type": "eav",
            **dict.fromkeys(("events", "rawOrLabel", "rawOrLabelHeaders", "returnFormat"), ""),
            **dict.fromkeys(("exportCheckboxLabel", "exportSurveyFields"), "false"),
            "exportDataAccessGroups": "false",
        },
        SERVER, python="3.13",
        replies={"/api/": [{"record": "1", "field_name": "age", "value": "42"}]},
    ),
    Plugin(
        "meltano-tap-facebook", "0.9.0", "tap", "tap-facebook",
        {"access_token": "v1", "account_id": "v1", "start_date": _START, "end_date": _START},
    ),
    Plugin(
        "tap-adanos", "0.1.0", "tap", "tap-adanos",
        {
            "api_key": "v1", "symbols": ["v1"], "start_date": "2025-12-01",
            "end_date": "2025-12-01",
        },
    ),
    Plugin(
        "tap-asyntai-chatbot", "1.0.0", "tap", "tap-asyntai-chatbot",
        {"api_key": "v1", "start_date": _START, "website_id": "v1"},
    ),
    Plugin(
        "tap-belvo", "0.4.1", "tap", "tap-belvo",
        {"secret_id": "v1", "password": "v1", "start_date": _START}, python="3.13",
    ),
    Plugin(
        "tap-betterstack", "0.4.0", "tap", "tap-betterstack",
        {"token": "v1", "start_date": _START}, python="3.13",
    ),
    Plugin(
        "tap-bitly", "0.5.0", "tap", "tap-bitly",
        {"token": "v1", "start_date": _START}, python="3.13",
    ),
    Plugin("tap-bitso", "0.7.1", "tap", "tap-bitso", {"key": "v1", "secret": "v1"}, python="3.13"),
    Plugin(
        "tap-canvas", "0.0.27", "tap", "tap-canvas",
        {
            "api_key": "v1", "base_url": "https://api.test", "account_id": "v1",
            "course_ends_after": _START, "start_date": _START,
        },
    ),
    Plugin(
        "tap-checkly", "0.5.7", "tap", "tap-checkly",
        {"account_id": "v1", "token": "v1", "start_date": _START},
    ),
    Plugin("tap-clickup", "0.0.23", "tap", "tap-clickup", {"api_token": "v1"}, requires=_OLD),
    Plugin("tap-formbricks", "0.0.3", "tap", "tap-formbricks", {"api_key": "v1"}),
    Plugin("tap-gainsightpx", "1.0.8", "tap", "tap-gainsightpx", {"api_key": "v1"}),
    Plugin(
        "tap-google-play", "0.6.5", "tap", "tap-google-play",
        {"app_id": "v1", "start_date": _START},
    ),
    Plugin(
        "tap-hotmart", "1.0.0", "tap", "tap-hotmart",
        {"client_id": "v1", "client_secret": "v1", "basic": "v1", "start_date": _START},
    ),
    Plugin(
        "tap-kaloricketabulky", "0.1.0", "tap", "tap-kaloricketabulky",
        {
            "email": "v1", "password": "v1", "start_date": _START, "end_date": _START,
            "user_agent": "v1",
        },
        python="3.13",
    ),
    Plugin("tap-meteotrentino", "0.5.6", "tap", "tap-meteotrentino", {"start_date": _START}),
    Plugin(
        "tap-neon", "0.5.10", "tap", "tap-neon",
        {"api_key": "v1", "start_date": _START}, python="3.13",
    ),
    Plugin(
        "tap-paylocity", "1.2.2", "tap", "tap-paylocity",
        {
            "client_id": "v1", "client_secret": "v1", "company_id": "v1", "start_date": _START,
            "end_date": _START, "user_agent": "v1",
        },
    ),
    Plugin(
        "tap-pulumi-cloud", "0.3.5", "tap", "tap-pulumi-cloud",
        {"token": "v1", "organizations": ["v1"], "start_date": _START},
    ),
    Plugin(
        "tap-pushbullet", "0.6.0", "tap", "tap-pushbullet",
        {"api_key": "v1", "start_date": _START}, python="3.13",
    ),
    Plugin("tap-readme", "0.3.7", "tap", "tap-readme", {"api_key": "v1"}),
    Plugin(
        "tap-socketdev", "0.4.6", "tap", "tap-socketdev",
        {"api_key": "v1", "start_date": _START}, python="3.13",
    ),
    Plugin(
        "tap-specstream", "0.1.0", "tap", "tap-specstream",
        {"api_key": "v1", "start_date": _START},
    ),
    Plugin(
        "tap-substack", "1.0.0", "tap", "tap-substack",
        {"subdomain": "v1", "session_token": "v1"},
    ),
    Plugin("tap-unirate", "0.1.0", "tap", "tap-unirate", {"api_key": "v1"}),
    Plugin("meltanolabs-target-csv", "0.5.0", "target", "target-csv",
           {"output_path": "{folder}"}, FILES),
    Plugin("meltanolabs-target-postgres", "0.8.1", "target", "target-postgres",
           {"default_target_schema": "public"}, DATABASE),
    Plugin("target-universal-file", "0.0.1", "target", "target-universal-file",
           {"protocol": "local", "file_type": "csv", "path": "{folder}/out"}, FILES,
           requires=_OLD),
    Plugin(
        "target-apprise", "0.1.0", "target", "target-apprise",
        {
            "uris": ["json://{host}/posted"],
            "uri_replacement": False,
            "stream_maps": {"cities": {"title": "name", "body": "name"}},
        },
        SERVER, requires=_OLD,
    ),
    Plugin("target-elasticsearch", "2.1.0", "target", "target-elasticsearch",
           {"scheme": "http", "host": "127.0.0.1", "port": 9}),
    Plugin("target-kafka", "0.1.3", "target", "target-kafka", {"bootstrap_servers": "127.0.0.1:9"}),
    Plugin("meltano-map-transform", "0.12.3", "mapper", "meltano-map-transform",
           {"stream_maps": {"cities": {"name": "record['name'].upper()", "twice": "id * 2"}}},
           "messages of a tap"),
)  # fmt: skip

MANIFESTS = tuple(
    Manifest(f"airbyte-source-{name}", version)
    for name, version in (
        ("aha", "0.3.14"),
        ("aircall", "0.3.0"),
        ("ashby", "0.1.16"),
        ("callrail", "0.1.14"),
        ("chargify", "0.4.15"),
        ("clockify", "0.3.13"),
        ("coda", "1.2.13"),
        ("commercetools", "0.3.11"),
        ("confluence", "0.2.16"),
        ("convertkit", "0.1.14"),
        ("copper", "0.3.16"),
        ("delighted", "0.2.19"),
        ("dockerhub", "0.2.15"),
        ("drift", "0.3.17"),
        ("emailoctopus", "0.1.15"),
        ("exchange-rates", "1.3.11"),
        ("fleetio", "0.1.11"),
        ("freshsales", "1.0.14"),
        ("getlago", "0.4.11"),
        ("gocardless", "0.1.14"),
        ("gutendex", "0.1.15"),
        ("k6-cloud", "0.1.15"),
        ("launchdarkly", "0.1.13"),
        ("lokalise", "0.1.15"),
        ("nasa", "0.2.14"),
        ("news-api", "0.1.15"),
        ("plausible", "0.1.14"),
        ("pokeapi", "0.2.15"),
        ("postmarkapp", "0.1.21"),
        ("ringcentral", "0.1.15"),
        ("statuspage", "0.1.13"),
        ("tempo", "0.3.14"),
        ("timely", "0.3.15"),
        ("toggl", "0.1.14"),
    )
)

CITIES = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": ["string", "null"]},
        "price": {"type": ["number", "null"]},
        "founded": {"type": ["string", "null"], "format": "date"},
        "seen_at": {"type": ["string", "null"], "format": "date-time"},
        "is_port": {"type": ["boolean", "null"]},
        "tags": {"type": ["array", "null"], "items": {"type": "string"}},
    },
}
MESSAGES = (
    {"type": "SCHEMA", "stream": "cities", "schema": CITIES, "key_properties": ["id"]},
    {
        "type": "RECORD",
        "stream": "cities",
        "record": {
            "id": 1,
            "name": "Lübeck",
            "price": 1.25,
            "founded": "1143-01-01",
            "seen_at": "2026-01-02T03:04:05.678901+00:00",
            "is_port": True,
            "tags": ["a", "b"],
        },
    },
    {"type": "RECORD", "stream": "cities", "record": {"id": 2, "name": 'said "no", left'}},
    {"type": "STATE", "value": {"bookmarks": {"cities": {"id": 2}}}},
    {"type": "RECORD", "stream": "cities", "record": {"id": 1, "name": "Lubeca"}},
    {"type": "STATE", "value": {"bookmarks": {"cities": {"id": 3}}}},
)
"""Singer messages that targets and mappers read."""
