"""XML as a document of mappings, lists and texts.

Rules of the room: the result is that of the xmltodict library, which Airbyte's XmlDecoder uses:
an element is a mapping by its attributes (``@name``) and children, its text beside them is
``#text``; an element of text alone is that text, an empty one null; children of one name are a
list. Entities that a document declares are not expanded, nothing outside it is read.
"""

from __future__ import annotations

from typing import Any, Final
from xml.parsers import expat

__all__ = ["document_of_xml"]

_TEXT: Final = "#text"


class _Builder:
    """The elements that are open, the innermost last: what is in each so far."""

    def __init__(self) -> None:
        self.root: dict[str, Any] = {}
        self._open: list[dict[str, Any]] = [self.root]
        self._texts: list[list[str]] = [[]]

    def start(self, _name: str, attributes: dict[str, str]) -> None:
        """Open an element."""
        self._open.append({f"@{name}": value for name, value in attributes.items()})
        self._texts.append([])

    def text(self, text: str) -> None:
        """Take a piece of the innermost element's text."""
        self._texts[-1].append(text)

    def end(self, name: str) -> None:
        """Close an element, and put it into the one around it."""
        inner: Any = self._open.pop()
        text = "".join(self._texts.pop()).strip() or None
        if not inner:
            inner = text
        elif text:
            _add(inner, _TEXT, text)
        _add(self._open[-1], name, inner)


def document_of_xml(body: bytes, encoding: str | None = None) -> dict[str, Any]:
    """Return a document; ``encoding`` counts more than what the document says of itself.

    Raises:
        xml.parsers.expat.ExpatError: it is no XML.
    """
    builder = _Builder()
    parser = expat.ParserCreate(encoding)
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    parser.DefaultHandler = _pass_over  # with it, entities of the document are not expanded
    parser.ExternalEntityRefHandler = _leave_out
    parser.Parse(body, True)  # noqa: FBT003  (the last piece)
    return builder.root


def _add(holder: dict[str, Any], name: str, value: Any) -> None:
    if name not in holder:
        holder[name] = value
    elif isinstance(holder[name], list):
        holder[name].append(value)
    else:
        holder[name] = [holder[name], value]


def _pass_over(_data: str) -> None:
    """Do nothing about a part of a document that is neither element nor text."""


def _leave_out(*_reference: Any) -> int:
    """Go on after a reference to something outside the document."""
    return 1
