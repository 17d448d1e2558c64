"""Values that component mappings insert into a stream template: manifest text or data.

Text of the manifest may be a Jinja template, even after it was inserted. A value from a response or
the config is data. Data is never rendered as a template and never names a component, even if it is
inserted into text of the manifest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import TemplateScope
from tap_core.manifest.literals import OPENINGS, has_template, parse_option
from tap_core.manifest.loader import parse_value
from tap_core.manifest.nodes import DataText, OwnText, as_data

if TYPE_CHECKING:
    from tap_core.manifest.interpolation import BoundTemplate

__all__ = ["insert_value", "mark_own_text"]

_PLACEHOLDER: Final = re.compile("\ue000([0-9]+)\ue001")
"""Placeholder that replaces data while the text of the manifest around it is parsed as YAML."""
_HARMLESS: Final = re.compile(r"[\w .:/@-]*")
"""Data that cannot end a quoted text, so that a template may contain it between quotes."""
_CLOSINGS: Final = ("}}", "%}", "#}")


def insert_value(value: Any, scope: TemplateScope, *, reads_yaml: bool) -> Any:
    """Return the value that a component mapping inserts into a stream template.

    In the value, data from a response or the config is marked, so that it is never read as a
    template.

    Args:
        value: Value of the mapping, or a template for it.
        scope: Template variables.
        reads_yaml: True to parse a string value as YAML.

    Raises:
        ManifestError: A template in the value fails, or data would become part of a template.
    """
    if callable(value):
        return _resolve_value(value, scope, reads_yaml=reads_yaml)
    if isinstance(value, dict):
        return {
            insert_value(key, scope, reads_yaml=False): insert_value(inner, scope, reads_yaml=False)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [insert_value(item, scope, reads_yaml=False) for item in value]
    return parse_value(value) if isinstance(value, str) and reads_yaml else value


def mark_own_text(value: Any) -> Any:
    """Return a copy of a manifest value in which each text is an `OwnText`.

    The class distinguishes manifest text from data when a template is rendered. Data comes from a
    response or the config.
    """
    if isinstance(value, dict):
        return {key: mark_own_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [mark_own_text(item) for item in value]
    return OwnText(value) if value.__class__ is str else value


def _resolve_value(bound: BoundTemplate, scope: TemplateScope, *, reads_yaml: bool) -> Any:
    """Render the template of a mapping's value, and return the value with its data marked.

    If data is within YAML or template text that the mapping writes, only that text is parsed, with
    placeholders for the data, so that no data is read as YAML or as a template.
    """
    parts = bound.render_parts(scope)
    template_text = "".join(part for part in parts if not isinstance(part, DataText))
    has_data = any(part and isinstance(part, DataText) for part in parts)
    if has_data and (has_template(template_text) or (reads_yaml and template_text.strip())):
        text = "".join(
            f"\ue000{index}\ue001" if isinstance(part, DataText) else _PLACEHOLDER.sub("", part)
            for index, part in enumerate(parts)
        )
        return _restore_data(
            parse_value(text) if reads_yaml else text, parts, reads_yaml=reads_yaml
        )
    value = parse_option("".join(parts), bound.kind, bound.types, bound.empty)
    if isinstance(value, str) and reads_yaml:
        value = parse_value(value)
    return as_data(value) if has_data else value


def _restore_data(value: Any, rendered: Sequence[str], *, reads_yaml: bool) -> Any:
    """Return a copy of ``value`` with the placeholders in its texts replaced by data.

    A placeholder contains the index of its data in ``rendered``, the parts of a rendered template.
    The data comes from a response or the config. If ``reads_yaml`` is True and a text consists of
    one placeholder, its data is parsed as YAML.
    """
    if isinstance(value, dict):
        return {
            _restore_data(key, rendered, reads_yaml=False): _restore_data(
                inner, rendered, reads_yaml=reads_yaml
            )
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_restore_data(item, rendered, reads_yaml=reads_yaml) for item in value]
    if not isinstance(value, str) or not _PLACEHOLDER.search(value):
        return value
    # Texts alternate with the indices in the placeholders between them.
    parts: list[str] = [
        rendered[int(part)] if index % 2 else part
        for index, part in enumerate(_PLACEHOLDER.split(value))
    ]
    if has_template("".join(part for part in parts if not isinstance(part, DataText))):
        return _embed_data(parts)
    text = "".join(parts)
    return as_data(parse_value(text) if reads_yaml and _PLACEHOLDER.fullmatch(value) else text)


def _embed_data(parts: Sequence[str]) -> str:
    """Return a template whose rendered text is the joined ``parts``.

    Parts that are data (`DataText`) are escaped, so that they are not read as template text.

    Raises:
        ManifestError: Data would become part of an expression of the template.
    """
    template = ""
    for index, part in enumerate(parts):
        if not isinstance(part, DataText):
            template += part
        elif not _ends_in_template(template):
            template += '{{ "' + "".join(f"\\U{ord(letter):08x}" for letter in part) + '" }}'
        else:
            after = parts[index + 1][:1] if index + 1 < len(parts) else ""
            if template[-1:] != after or after not in {"'", '"'} or not _HARMLESS.fullmatch(part):
                raise ManifestError(
                    "a value of a response or the config would become part of a template that"
                    " this mapping writes: put it outside the braces, or between quotes if it"
                    " has only letters, digits and spaces."
                )
            template += part
    return template


def _ends_in_template(text: str) -> bool:
    """Return True if a text ends inside a Jinja expression, such as ``{{ config[``."""
    opened, closed = (max(map(text.rfind, marks)) for marks in (OPENINGS, _CLOSINGS))
    return opened > closed
