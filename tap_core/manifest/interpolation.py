"""Templates of a manifest: Jinja in a sandbox, compiled once, rendered to text, read as a value.

Rules of the room: the only place that knows Jinja. A template is checked when it is made: its
syntax, and that every name in it is one that Airbyte knows. What is a chain of look-ups with
text around it is done without Jinja, and gives the same. A result is a text first; where it
reads as a Python literal it is that value (Airbyte's YAML reference, "Interpolation").
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeVar, cast

from jinja2 import TemplateError, UndefinedError, meta, nodes
from jinja2.runtime import Context

from tap_core.exceptions import LimitExceededError
from tap_core.manifest.document import DataText, OwnText
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.float_literals import decimals_to_floats
from tap_core.manifest.literals import parse_plain
from tap_core.manifest.macros import MACROS, NON_DETERMINISTIC
from tap_core.manifest.sandbox import Sandbox, bounded, running
from tap_core.redaction.row_values import are_rows_shown

__all__ = [
    "NAMES",
    "RESTRICTED_NAMES",
    "STATE",
    "BoundTemplate",
    "Template",
    "compile_template",
    "named_settings",
]

_USUAL: Final = (
    *("config", "parameters", "record", "response", "headers", "next_page_token"),
    *("stream_slice", "stream_partition", "stream_interval", "last_record", "last_page_size"),
)
NAMES: Final = frozenset(
    {
        *_USUAL,
        # Of single components
        *("decoded_response", "session_token", "raw_schema", "property", "path", "value"),
        *("page_size", "request_url"),
        *("components_values", "stream_template_config", "item_path", "file_uri", "filename"),
        *("creation_response", "polling_response", "download_target", "url"),
    }
)
"""What a template may name, each where there is such a thing."""

STATE: Final = "stream_state"
"""What only templates of a stream may name whose cursor is a class of the connector's own."""

RESTRICTED_NAMES: Final = frozenset({STATE, "components_values", "stream_template_config"})
"""What only templates of some components may name: they say so (``shows``)."""

_log: Final = logging.getLogger(__name__)
_SHOWN: Final = 500
"""Letters of a long template that messages show."""
_LONGEST: Final = 200_000
"""Letters that a template may have."""

_CONFIG: Final = "config"
_FIXED: Final = frozenset({_CONFIG, "parameters"})
_ALIASES: Final = {"stream_interval": "stream_slice", "stream_partition": "stream_slice"}


_JINJA: Final = Sandbox()

_Part: TypeAlias = Callable[[Mapping[str, Any]], Any]
_Given = TypeVar("_Given")


class Template:
    """A compiled template: one text of a manifest, whoever uses it and with what parameters."""

    __slots__ = ("_render", "changes", "names", "text")

    def __eq__(self, other: object) -> bool:
        """Return whether the other is made of the same text."""
        return isinstance(other, Template) and self.text == other.text

    def __hash__(self) -> int:
        """Return the hash of its text."""
        return hash(self.text)

    def __init__(self, text: str) -> None:
        tree, names = _parsed(text)
        self.text: str = text
        self.names: frozenset[str] = names
        """What it names, functions aside."""
        self.changes: bool = _changes(tree)
        """Whether it gives another text each time, such as the present instant."""
        self._check_names()
        try:
            self._render: Callable[[Mapping[str, Any]], str] = _quick(
                tree, self.names
            ) or _through_jinja(tree)
        except (RecursionError, SyntaxError, MemoryError, TemplateError) as error:
            raise ManifestError(
                f"the template {_shown(text)} cannot be compiled: {_said(error)}."
            ) from None

    @property
    def is_fixed(self) -> bool:
        """Whether configuration and parameters decide what it gives."""
        return not self.changes and self.names <= _FIXED

    @property
    def needs_scope(self) -> bool:
        """Whether it names something of a request."""
        return not self.names <= _FIXED

    def render(self, scope: Mapping[str, Any], given: Mapping[str, Any]) -> str:
        """Return the text that it gives; something undefined gives an empty text.

        ``given`` is what it sees whatever the scope: its parameters, the configuration.

        Raises:
            UndefinedError: something of an undefined value is asked for.
            TypeError: values of types that do not go together.
            ManifestError: it names what there is not here, or fails.
        """
        return self._with(self._render, scope, given)

    def pieces(self, scope: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
        """Return the parts of what it gives: its own text, and data as `DataText`.

        Raises:
            Exception: as `render` does.
        """
        return self._with(_in_pieces(self.text), scope, given)

    def _with(
        self,
        render: Callable[[Mapping[str, Any]], _Given],
        scope: Mapping[str, Any],
        given: Mapping[str, Any],
    ) -> _Given:
        missing = [name for name in self.names if name not in scope]
        if missing:
            scope = {**scope, **{name: self._other(name, scope, given) for name in missing}}
        try:
            return render(scope)
        except (UndefinedError, TypeError):
            raise
        except LimitExceededError as error:  # its words are of the limit alone
            raise ManifestError(f"the template {_shown(self.text)} fails: {error}") from None
        except Exception as error:  # noqa: BLE001  (whatever a function of a template raises)
            raise ManifestError(f"the template {self.text!r} fails: {self.why(error)}") from None

    def _other(self, name: str, scope: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        if name in given:
            return given[name]
        other = _ALIASES.get(name)
        if other is not None and other in scope:
            return scope[other]
        raise ManifestError(f"the template {self.text!r} names '{name}', which is not known here.")

    def why(self, error: Exception) -> str:
        """Say what was raised; its words may repeat a setting, or a row, and are left out then."""
        is_hidden = _CONFIG in self.names or not are_rows_shown()
        return type(error).__name__ if is_hidden else _said(error)

    def _check_names(self) -> None:
        unknown = sorted(self.names - NAMES - {STATE})
        if unknown:
            raise ManifestError(
                f"the template {self.text!r} names {', '.join(map(repr, unknown))}, which no"
                f" template can see. There are {', '.join(_USUAL)}, and the functions"
                f" {', '.join(sorted(MACROS))}."
            )


@dataclass(frozen=True, slots=True)
class BoundTemplate:
    """A template in its place: called with a scope, it gives the value of a field."""

    template: Template
    given: Mapping[str, Any] = field(hash=False, repr=False)
    """``parameters``, and the configuration where it is known."""
    kind: str
    """``text``, ``value`` or ``condition``."""
    types: tuple[type, ...] = ()
    """What a literal of a value may be, nothing for anything."""
    empty: Any = ""
    """What a value is when its text is empty."""
    place: str = field(default="", compare=False)
    """Where it was written, for messages."""

    def __call__(self, scope: Mapping[str, Any]) -> Any:
        """Return the value in a scope.

        A condition that compares what cannot be compared holds, as with airbyte-cdk.

        Raises:
            ManifestError: the template fails, or asks something of an undefined value.
        """
        try:
            text = self.template.render(scope, self.given)
        except UndefinedError as error:
            if self.kind == "condition":
                return False
            if self.empty is None:
                return None
            raise self._undefined(error) from None
        except TypeError as error:
            if self.kind == "condition":
                _warn(f"{self.place}: {self._mistyped(error)}")
                return True
            raise self._failed(self._mistyped(error)) from None
        except ManifestError as error:
            raise self._failed(error.message) from None
        return parse_plain(text, self.kind, self.types, self.empty)

    def pieces(self, scope: Mapping[str, Any]) -> list[str]:
        """Return the parts of the text in a scope, data among them as `DataText`.

        Raises:
            ManifestError: the template fails, or asks something of an undefined value.
        """
        try:
            return self.template.pieces(scope, self.given)
        except UndefinedError as error:
            if self.empty is None:
                return []
            raise self._undefined(error) from None
        except TypeError as error:
            raise self._failed(self._mistyped(error)) from None
        except ManifestError as error:
            raise self._failed(error.message) from None

    def _undefined(self, error: UndefinedError) -> ManifestError:
        return self._failed(
            f"the template {self.template.text!r} asks something of a value that there is"
            f" not: {error.message}."
        )

    def _mistyped(self, error: TypeError) -> str:
        return f"the template {self.template.text!r} fails: {self.template.why(error)}"

    def _failed(self, message: str) -> ManifestError:
        return ManifestError(message, place=self.place)


@lru_cache(maxsize=1_024)
def _warn(message: str) -> None:
    """Warn, once of each thing."""
    _log.warning("%s", message)


@lru_cache(maxsize=8_192)
def compile_template(text: str) -> Template:
    """Compile a template; a text that was compiled before is not again.

    Raises:
        ManifestError: its syntax is wrong, or it names what no template can see.
    """
    return Template(text)


def named_settings(text: str) -> frozenset[str]:
    """Return the settings that a template looks up in ``config`` by a fixed name.

    There are none in a text that is no template, or not a correct one.
    """
    try:
        tree, names = _parsed(text)
    except ManifestError:
        return frozenset()
    return frozenset(_settings_in(tree)) if _CONFIG in names else frozenset()


def _settings_in(tree: nodes.Template) -> Iterator[str]:
    """Yield what follows ``config``: ``config['a']``, ``config.a``, ``config.get('a')``."""
    for item in tree.find_all(nodes.Getitem):
        if _is_config(item.node) and isinstance(item.arg, nodes.Const):
            yield str(item.arg.value)
    for attribute in tree.find_all(nodes.Getattr):
        if _is_config(attribute.node) and not hasattr(dict, attribute.attr):
            yield attribute.attr
    for call in tree.find_all(nodes.Call):
        asked = call.node
        if isinstance(asked, nodes.Getattr) and asked.attr == "get" and _is_config(asked.node):
            yield from (str(one.value) for one in call.args[:1] if isinstance(one, nodes.Const))


def _is_config(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Name) and node.name == _CONFIG


def _parsed(text: str) -> tuple[nodes.Template, frozenset[str]]:
    """Return the tree of a template, and what it names."""
    if len(text) > _LONGEST:
        raise ManifestError(
            f"the template {_shown(text)} has {len(text):,} letters, and may have {_LONGEST:,}."
        )
    try:
        with warnings.catch_warnings():
            # A pattern such as "\\d" in a template is no matter of the user's Python.
            warnings.simplefilter("ignore", DeprecationWarning)
            tree = _JINJA.parse(text)
            return tree, frozenset(meta.find_undeclared_variables(tree))
    except TemplateError as error:
        raise ManifestError(f"the template {text!r} does not parse: {_said(error)}") from None
    except RecursionError:
        raise ManifestError(
            f"the template {_shown(text)} is nested too deeply: simplify it."
        ) from None


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _said(error: BaseException) -> str:
    if isinstance(error, TemplateError):
        return error.message or type(error).__name__
    return f"{type(error).__name__}: {error}"


def _changes(tree: nodes.Template) -> bool:
    calls = any(name.name in NON_DETERMINISTIC for name in tree.find_all(nodes.Name))
    return calls or any(one.name == "random" for one in tree.find_all(nodes.Filter))


def _through_jinja(tree: nodes.Template) -> Callable[[Mapping[str, Any]], str]:
    """Return what renders any template.

    A context is made of what the template needs alone: Jinja's own way costs five times that.
    """
    functions = {name.name for name in tree.find_all(nodes.Name)} & _JINJA.globals.keys()
    is_special = any(name.name == "self" for name in tree.find_all(nodes.Name))
    whole = _JINJA.compiled(tree)
    if is_special or whole.blocks:
        return bounded(whole.render)
    root, known = whole.root_render_func, {name: _JINJA.globals[name] for name in functions}
    join = _JINJA.concat
    if not known:
        return bounded(lambda scope: join(root(Context(_JINJA, cast(Any, scope), None, {}))))
    return bounded(lambda scope: join(root(Context(_JINJA, {**known, **scope}, None, {}))))


def _told(value: Any) -> str:
    """Return a value as text: the manifest's own, or data."""
    return str(value) if value.__class__ is OwnText else _Told(decimals_to_floats(value))


class _Told(str):
    """A piece of output that is data; it stays one where Jinja makes a text of it."""

    __slots__ = ()

    def __str__(self) -> str:
        return self


_TELLING: Final = Sandbox(_told)
"""The environment whose output tells the manifest's text from data."""


@lru_cache(maxsize=1_024)
def _in_pieces(text: str) -> Callable[[Mapping[str, Any]], list[str]]:
    """Return what renders a template to the parts of its text."""
    root = _TELLING.compiled(_TELLING.parse(text)).root_render_func

    def render(scope: Mapping[str, Any]) -> list[str]:
        with running():
            made = list(root(Context(_TELLING, {**_TELLING.globals, **scope}, None, {})))
            return [DataText(one) if one.__class__ is _Told else one for one in made]

    return render


# Look-ups with text around them


def _quick(
    tree: nodes.Template, names: frozenset[str]
) -> Callable[[Mapping[str, Any]], str] | None:
    """Return what renders a template of look-ups; None for one that has more in it."""
    if len(tree.body) != 1 or not isinstance(tree.body[0], nodes.Output):
        return None
    parts: list[str | _Part] = []
    for node in tree.body[0].nodes:
        part = node.data if isinstance(node, nodes.TemplateData) else _looked_up(node, names)
        if part is None:
            return None
        parts.append(part)
    if len(parts) == 1 and callable(parts[0]):
        only = parts[0]
        return lambda scope: str(decimals_to_floats(only(scope)))
    return lambda scope: "".join(
        [part if isinstance(part, str) else str(decimals_to_floats(part(scope))) for part in parts]
    )


def _looked_up(node: nodes.Node, names: frozenset[str]) -> _Part | None:
    """Return what looks a chain such as ``config['a'].b`` up."""
    if isinstance(node, nodes.Name):
        name = node.name
        return (lambda scope: scope[name]) if name in names else None
    if isinstance(node, nodes.Getattr):
        inner, attribute = _looked_up(node.node, names), node.attr
        return None if inner is None else _attribute(inner, attribute)
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        inner, key = _looked_up(node.node, names), node.arg.value
        return None if inner is None else _item(inner, key)
    return None


def _attribute(inner: _Part, name: str) -> _Part:
    found, of_dict = _JINJA.getattr, hasattr(dict, name)

    def get(scope: Mapping[str, Any]) -> Any:
        thing = inner(scope)
        if not of_dict and thing.__class__ is dict and name in thing:
            return thing[name]
        return found(thing, name)

    return get


def _item(inner: _Part, key: Any) -> _Part:
    found = _JINJA.getitem

    def get(scope: Mapping[str, Any]) -> Any:
        thing = inner(scope)
        if thing.__class__ is dict and key in thing:
            return thing[key]
        return found(thing, key)

    return get
