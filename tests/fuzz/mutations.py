"""Mutations of seed inputs: JSON by its structure, everything else by bytes and lines.

The same seed gives the same inputs. Among the inserted values are those that have broken readers
before: unbounded numbers, deep nesting, lone surrogates, references, patterns, templates.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any, Final

__all__ = ["Mutator"]

_RAW: Final = "\x00raw\x00"
"""Marks a text that is inserted into the JSON unquoted."""


def _raw(text: str) -> str:
    return f"{_RAW}{text}{_RAW}"


_DEEP: Final = 3000
_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**40),
    *(0.1, -0.0, 1e308, 5e-324, "", " ", "\u0000", "null", "NaN", "Infinity", "true"),
    *({}, [], [[]], [None], {"": None}, {"a": {"a": {"a": 1}}}),
    *(_raw("1e999999999"), _raw("-1e-999999999"), _raw("9" * 5000), _raw("0." + "1" * 5000)),
    *(_raw("NaN"), _raw("-Infinity"), _raw('"\\ud800"'), _raw("[" * _DEEP + "]" * _DEEP)),
    _raw('{"a":' * _DEEP + "1" + "}" * _DEEP),
    *("x" * 70_000, "0x" + "f" * 20_000, "1_000", "1e5", "é\u202e\ufeff", "\x1b[31m\r\n"),
    *("2024-02-30", "9999-12-31T23:59:60Z", "0000-01-01", "2024-01-01T00:00:00+99:99"),
    *("../../etc/passwd", "/dev/zero", "file:///etc/hostname", "http://evil.example/x"),
    *("`; DROP TABLE x; --", "a.b", "a'b\"c`d", "__proto__", "_sdc_batched_at"),
    *({"$ref": "#"}, {"$ref": "#/properties/id"}, {"$ref": "file:///etc/hostname"}),
    *({"$ref": "http://evil.example/s.json"}, {"type": ["null", "no-such-type"]}),
    *({"type": "string", "pattern": "^(a+)+$"}, "a" * 40 + "!", {"enum": [{}, [], 1]}),
    *({"anyOf": [{"type": "object"}, {"type": "array"}]}, {"multipleOf": 0}, {"type": {}}),
    *("{{ config }}", "{{ ''.__class__ }}", "{{ 'a' * 10 ** 9 }}", "{% for x in y %}"),
    *("'a'.ljust(10**9)", "4000000**4000000", "'%1000000000d' % 1", "x.__class__", "lambda: 1"),
)
_TOKENS: Final[tuple[bytes, ...]] = (
    *(b"\x00", b"\xff", b"\xed\xa0\x80", b"\r\n", b"\n", b'"', b"{", b"}", b"[", b"]", b",", b":"),
    *(b"&a ", b"*a", b"!!python/object/apply:os.system ", b"<<: ", b"- ", b"? ", b"|\n", b"---\n"),
    *(b"{{ ", b" }}", b"$ref", b"#/definitions/x", b"~", b"null", b"9" * 400, b"1e999999999"),
    *(b"[" * 2000, b"{a: " * 300, b"\t", b"\xef\xbb\xbf", b"%", b"@", b"`"),
)
_LARGEST: Final = 1 << 20
"""Maximum bytes of an input; more would only make the runs slower."""


class Mutator:
    """Generates inputs from seeds with one random generator."""

    def __init__(self, seeds: Sequence[bytes], seed: int) -> None:
        self._seeds = list(seeds)
        self._chance = random.Random(seed)

    def make(self) -> bytes:
        """Return a new input: a seed with one to six changes."""
        data = self._chance.choice(self._seeds)
        for _ in range(self._chance.choice((1, 1, 2, 3, 6))):
            is_structured = self._chance.random() < 0.7
            data = (self._change_json(data) if is_structured else None) or self._change(data)
            data = data[:_LARGEST]
        return data

    # By structure

    def _change_json(self, data: bytes) -> bytes | None:
        """Change a document or a line that is JSON; return None if there is none."""
        lines = data.splitlines() or [b""]
        document_of_all = _parse_json(data)
        if document_of_all is not None:
            return self._dumped(self._changed(document_of_all))
        index = self._chance.randrange(len(lines))
        document = _parse_json(lines[index])
        if document is None:
            return None
        lines[index] = self._dumped(self._changed(document))
        if self._chance.random() < 0.1:
            self._chance.shuffle(lines)
        return b"\n".join(lines) + b"\n"

    def _changed(self, node: Any) -> Any:
        """Return a document with one node changed, at a random path."""
        is_leaf = not isinstance(node, dict | list) or not node
        if is_leaf or self._chance.random() < 0.15:
            return self._replaced(node)
        if isinstance(node, list):
            index = self._chance.randrange(len(node))
            return [*node[:index], *self._members(node[index]), *node[index + 1 :]]
        key = self._chance.choice(list(node))
        return self._with_member(node, key)

    def _members(self, member: Any) -> list[Any]:
        kind = self._chance.randrange(10)
        if kind == 0:
            return []
        if kind == 1:
            return [member, member]
        return [self._changed(member)]

    def _with_member(self, node: dict[str, Any], key: str) -> dict[str, Any]:
        kind = self._chance.randrange(12)
        if kind == 0:
            return {name: value for name, value in node.items() if name != key}
        if kind == 1:
            new = self._chance.choice([value for value in _VALUES if isinstance(value, str)])
            return {(new if name == key else name): value for name, value in node.items()}
        if kind == 2:
            return {**node, self._chance.choice(list(node)): node[key]}
        return {**node, key: self._changed(node[key])}

    def _replaced(self, node: Any) -> Any:
        kind = self._chance.randrange(6)
        if kind == 0:
            return [node]
        if kind == 1:
            return {"value": node}
        if kind == 2 and isinstance(node, str):
            longer = (node * 100)[:_LARGEST]
            return self._chance.choice((longer, node[::-1], node + "\u0000", node.upper()))
        return self._chance.choice(_VALUES)

    def _dumped(self, document: Any) -> bytes:
        text = json.dumps(document, ensure_ascii=self._chance.random() < 0.5)
        mark = json.dumps(_RAW)[1:-1]
        parts = text.replace(f'"{mark}', mark).replace(f'{mark}"', mark).split(mark)
        raw = [part.replace('\\"', '"').replace("\\\\", "\\") for part in parts[1::2]]
        parts[1::2] = raw
        return "".join(parts).encode("utf-8", "surrogatepass")

    # By bytes

    def _change(self, data: bytes) -> bytes:
        if not data:
            return self._chance.choice(_TOKENS)
        if self._chance.random() < 0.15:
            return self._change_lines(data)
        start = self._chance.randrange(len(data))
        end = min(len(data), start + self._chance.choice((1, 1, 4, 30)))
        other = self._chance.choice(self._seeds)
        replacement = self._chance.choice(
            (
                bytes([self._chance.randrange(256)]) + data[start + 1 :],
                data[end:],
                data[start:end] * self._chance.choice((2, 50)) + data[end:],
                other[self._chance.randrange(len(other) + 1) :],
                b"",
                self._chance.choice(_TOKENS) + data[start:],
            )
        )
        return data[:start] + replacement

    def _change_lines(self, data: bytes) -> bytes:
        lines = data.split(b"\n")
        index, other = self._chance.randrange(len(lines)), self._chance.randrange(len(lines))
        kind = self._chance.randrange(4)
        if kind == 0:
            del lines[index]
        elif kind == 1:
            lines.insert(other, lines[index])
        elif kind == 2:
            lines[index], lines[other] = lines[other], lines[index]
        else:
            name, colon, _ = lines[index].partition(b":")
            value = self._dumped(self._chance.choice(_VALUES)) if colon else b""
            lines[index] = name + colon + b" " + value
        return b"\n".join(lines)


def _parse_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
