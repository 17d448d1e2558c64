"""Parser from XML to nested dicts, lists and texts.

The result equals that of the xmltodict library, which Airbyte's XmlDecoder uses: an element is a
dict of its attributes (``@name``), its children and its text (``#text``). An element with only text
becomes a str, an empty element None, and repeated children a list. Entities that the document
declares are expanded in attributes only, and no other file or URL is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from xml.parsers import expat

__all__ = ["parse_xml"]

_TEXT: Final = "#text"


class _XmlHandler:
    """Handler of expat's events that builds a dict, `root`, from an XML document."""

    def __init__(self) -> None:
        self.root: dict[str, Any] = {}
        self._open: list[dict[str, Any]] = [self.root]
        self._texts: list[list[str]] = [[]]

    def start(self, _name: str, attributes: dict[str, str]) -> None:
        """Open an element with its attributes; called at a start tag."""
        self._open.append({f"@{name}": value for name, value in attributes.items()})
        self._texts.append([])

    def text(self, text: str) -> None:
        """Append text to the innermost open element."""
        self._texts[-1].append(text)

    def end(self, name: str) -> None:
        """Close the innermost element and add it to its parent; called at an end tag."""
        inner: Any = self._open.pop()
        text = "".join(self._texts.pop()).strip() or None
        if not inner:
            inner = text
        elif text:
            _add(inner, _TEXT, text)
        _add(self._open[-1], name, inner)


def parse_xml(
    body: bytes, encoding: str | None, *, check_entities: Callable[[], object]
) -> dict[str, Any]:
    """Parse an XML body to a dict: ``<a><b>1</b></a>`` gives ``{"a": {"b": "1"}}``.

    Args:
        body: The XML.
        encoding: Encoding that overrides the one that the XML declares; None uses that one.
        check_entities: Called for each entity that the document declares, before it is used. An
            error that it raises ends the parsing.

    Raises:
        xml.parsers.expat.ExpatError: the body is not XML.
    """
    builder = _XmlHandler()
    parser = expat.ParserCreate(encoding)
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    parser.DefaultHandler = _ignore  # a default handler prevents the expansion of entities in text
    parser.EntityDeclHandler = lambda *_: check_entities()
    parser.ExternalEntityRefHandler = _skip_entity
    parser.Parse(body, True)  # noqa: FBT003  (the last piece)
    return builder.root


def _add(holder: dict[str, Any], name: str, value: Any) -> None:
    if name not in holder:
        holder[name] = value
    elif isinstance(holder[name], list):
        holder[name].append(value)
    else:
        holder[name] = [holder[name], value]


def _ignore(_data: str) -> None:
    """Ignore comments, declarations and entities; a handler that does nothing."""


def _skip_entity(*_reference: Any) -> int:
    """Return 1, so that the parser continues after a reference to an external entity."""
    return 1
