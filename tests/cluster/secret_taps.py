"""A tap whose author handles the secrets of its settings carelessly; Spark's workers import it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tap_core import RESTStream, Stream, Tap
from tap_core import typing as th

__all__ = ["CarelessTap"]

NUMBERS = th.PropertiesList(th.Property("number", th.IntegerType)).to_dict()


class Able(Stream):
    """Contexts that wait until the test has looked at all places."""

    name = "able"
    schema = NUMBERS
    primary_keys = ("number",)
    partitions = [{"half": number} for number in range(2)]

    def get_records(self, context: Any):
        folder = Path(self.config["folder"])
        (folder / f"begun-{context['half']}").touch()
        while not (folder / "seen").exists():
            time.sleep(0.1)
        yield {"number": context["half"]}


class Broken(Stream):
    """Contexts whose errors contain secrets."""

    name = "broken"
    schema = NUMBERS
    partitions = [{"half": number} for number in range(2)]

    def get_records(self, context: Any):
        yield {"number": 1}
        try:
            _ = {}[self.config["api_token"]]
        except KeyError as error:
            raise RuntimeError(
                f"{self.config['dsn']} refused {self.config['api_token']}: {dict(self.config)}"
            ) from error


class Refused(RESTStream):
    """Requests with a key in their URL, to a port without a server."""

    name = "refused"
    url_base = "http://127.0.0.1:9"
    path = "/x"
    schema = NUMBERS
    partitions = [{"half": number} for number in range(2)]

    def get_url_params(self, context: Any, next_page_token: Any):
        return {"api_key": self.config["api_token"], "sig": self.config["word"]}

    def backoff_max_tries(self):
        return 2


class CarelessTap(Tap):
    """Three streams, and settings of every kind that contain a secret."""

    name = "tap-careless"
    config_jsonschema = th.PropertiesList(
        th.Property("api_token", th.StringType),
        th.Property("word", th.StringType, secret=True),
        th.Property("dsn", th.StringType),
        th.Property("folder", th.StringType),
        th.Property("streams", th.ArrayType(th.StringType)),
    ).to_dict()

    def discover_streams(self):
        kinds = {kind.name: kind for kind in (Able, Broken, Refused)}
        return [kinds[name](self) for name in self.config["streams"]]
