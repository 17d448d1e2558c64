"""A bare loop that splits Singer messages into raw records and discards them."""

from __future__ import annotations

import os

import msgspec

BLOCK = 1 << 20


class Message(msgspec.Struct):
    """A Singer message whose record is not decoded."""

    type: str
    stream: str | None = None
    record: msgspec.Raw = msgspec.Raw()


def main() -> None:
    """Read standard input to its end and print the number of records."""
    decode = msgspec.json.Decoder(Message).decode
    count, rest = 0, b""
    while block := os.read(0, BLOCK):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            message = decode(line)
            if message.type == "RECORD":
                count += 1
    print(count)


if __name__ == "__main__":
    main()
