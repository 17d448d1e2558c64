"""What a person writes by hand: lines to raw records, and nothing done with them."""

from __future__ import annotations

import os

import msgspec

BLOCK = 1 << 20


class Message(msgspec.Struct):
    """One line; the record stays the bytes that came."""

    type: str
    stream: str | None = None
    record: msgspec.Raw = msgspec.Raw()


def main() -> None:
    """Read to the end and print how many records came."""
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
