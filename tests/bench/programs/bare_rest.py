"""A bare script that reads pages of a REST API with requests and msgspec and writes the records.

It has no states, metrics, logs, retries or limits: its cost is the minimum with these packages.
"""

from __future__ import annotations

import sys

import msgspec
import requests

DECODE = msgspec.json.Decoder().decode
ENCODE = msgspec.json.Encoder().encode


def main(url: str) -> None:
    session, page = requests.Session(), 1
    while page is not None:
        params = {"per_page": "100", "page": str(page)}
        body = DECODE(session.get(f"{url}/orders", params=params).content)
        sys.stdout.buffer.write(
            b"".join(
                b'{"type":"RECORD","stream":"narrow","record":'
                + ENCODE(record)
                + b',"time_extracted":"2026-01-01T00:00:00.000000+00:00"}\n'
                for record in body["data"]
            )
        )
        page = body["next"]


if __name__ == "__main__":
    main(sys.argv[1])
