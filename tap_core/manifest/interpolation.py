"""Interpolation: Jinja templates of a manifest, compiled in a sandbox and rendered to values.

Compiling a template checks its syntax and the names of its variables; only Airbyte's variables are
allowed. A template with plain look-ups, such as ``/users/{{ config['id'] }}``, is rendered without
Jinja, with the same result. If the rendered text is a Python literal, the result is the literal's
value (Airbyte's YAML reference, "Interpolation").
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeVar

from jinja2 import TemplateError, UndefinedError, meta, nodes
from jinja2.runtime import Context

from tap_core.exceptions import LimitExceededError
from tap_core.manifest.decimal_conversion import decimals_to_floats
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.literals import parse_option
from tap_core.manifest.macros import MACROS, NON_DETERMINISTIC
from tap_core.manifest.nodes import DataText, OwnText
from tap_core.manifest.sandbox import Sandbox, limit_rendering
from tap_core.redaction.row_values import are_rows_shown

__all__ = [
    "NAMES",
    "RESTRICTED_NAMES",
    "STATE",
    "BoundTemplate",
    "Template",
    "compile_template",
    "find_config_keys",
]

_COMMON_NAMES: Final = (
    *("config", "parameters", "record", "response", "headers", "next_page_token"),
    *("stream_slice", "stream_partition", "stream_interval", "last_record", "last_page_size"),
)
NAMES: Final = frozenset(
    {
        *_COMMON_NAMES,
        # Of certain components
        *("decoded_response", "session_token", "raw_schema", "property", "path", "value"),
        *("page_size", "request_url"),
        *("components_values", "stream_template_config", "item_path", "file_uri", "filename"),
        *("creation_response", "polling_response", "download_target", "url"),
    }
)
"""Names of all template variables. Most are available only in certain options of a manifest."""

STATE: Final = "stream_state"
"""Template variable for the state, available only in streams with a custom cursor class."""

RESTRICTED_NAMES: Final = frozenset({STATE, "components_values", "stream_template_config"})
"""Variables that a component's templates may use only if ``get_restricted_names`` lists them."""

_log: Final = logging.getLogger(__name__)
_MAX_SHOWN: Final = 500
"""Maximum number of characters of a template in a message."""
_MAX_LENGTH: Final = 200_000
"""Maximum number of characters of a template."""

_CONFIG: Final = "config"
_CONSTANT_NAMES: Final = frozenset({_CONFIG, "parameters"})
_ALIASES: Final = {"stream_interval": "stream_slice", "stream_partition": "stream_slice"}
"""Alternative names of variables; a missing variable gets the value of the other name."""

_SANDBOX: Final = Sandbox()

_Lookup: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""Function that looks up a value in the variables of a template."""
_Result = TypeVar("_Result")


class Template:
    """Compiled Jinja template of a manifest; options with equal texts share one such object."""

    __slots__ = ("_render", "is_volatile", "names", "text")

    def __init__(self, text: str) -> None:
        tree, names = _parse(text)
        self.text: str = text
        self.names: frozenset[str] = names
        """Names of the variables that the template uses; functions are not included."""
        self.is_volatile: bool = _is_volatile(tree)
        """True if each rendering may give another result, for example with ``now_utc()``."""
        self._check_names()
        try:
            self._render: Callable[[Mapping[str, Any]], str] = _compile_fast(
                tree, self.names
            ) or _compile_jinja(tree)
        except (RecursionError, SyntaxError, MemoryError, TemplateError) as error:
            raise ManifestError(
                f"the template {_format_template(text)} cannot be compiled: {_format_error(error)}."
            ) from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Template) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def is_fixed(self) -> bool:
        """True if the template's result depends only on the config and the parameters."""
        return not self.is_volatile and self.names <= _CONSTANT_NAMES

    @property
    def needs_scope(self) -> bool:
        """True if the template uses a variable other than ``config`` and ``parameters``."""
        return not self.names <= _CONSTANT_NAMES

    def render(self, scope: Mapping[str, Any], constants: Mapping[str, Any]) -> str:
        """Render the template to text; an undefined variable renders as empty text.

        Args:
            scope: Variables of the request.
            constants: Variables that are the same for all requests: parameters and config.

        Raises:
            UndefinedError: The template accesses an attribute or item of an undefined value.
            TypeError: The template combines values of incompatible types.
            ManifestError: The template fails, or uses a variable that is not available in its
                field.
        """
        return self._render_with(self._render, scope, constants)

    def render_parts(self, scope: Mapping[str, Any], constants: Mapping[str, Any]) -> list[str]:
        """Render the template to a list of texts: a `DataText` for inserted data, else a str.

        Args:
            scope: Variables of the request.
            constants: Variables that are the same for all requests: parameters and config.

        Raises:
            UndefinedError, TypeError, ManifestError: The template fails, as for `render`.
        """
        return self._render_with(_compile_parts(self.text), scope, constants)

    def _render_with(
        self,
        render: Callable[[Mapping[str, Any]], _Result],
        scope: Mapping[str, Any],
        constants: Mapping[str, Any],
    ) -> _Result:
        missing = [name for name in self.names if name not in scope]
        if missing:
            scope = {
                **scope,
                **{name: self._find_variable(name, scope, constants) for name in missing},
            }
        try:
            return render(scope)
        except (UndefinedError, TypeError):
            raise
        except LimitExceededError as error:  # its message shows no values
            raise ManifestError(
                f"the template {_format_template(self.text)} fails: {error}"
            ) from None
        except Exception as error:  # noqa: BLE001  (a function of a template may raise any error)
            raise ManifestError(
                f"the template {self.text!r} fails: {self.describe_error(error)}"
            ) from None

    def _find_variable(
        self, name: str, scope: Mapping[str, Any], constants: Mapping[str, Any]
    ) -> Any:
        if name in constants:
            return constants[name]
        other = _ALIASES.get(name)
        if other is not None and other in scope:
            return scope[other]
        raise ManifestError(f"the template {self.text!r} uses '{name}', which is not known here.")

    def describe_error(self, error: Exception) -> str:
        """Return the message of an error, or only its type if the message may contain secrets."""
        is_hidden = _CONFIG in self.names or not are_rows_shown()
        return type(error).__name__ if is_hidden else _format_error(error)

    def _check_names(self) -> None:
        unknown = sorted(self.names - NAMES - {STATE})
        if unknown:
            raise ManifestError(
                f"the template {self.text!r} uses {', '.join(map(repr, unknown))}, which no"
                f" template can use. Available are {', '.join(_COMMON_NAMES)}, and the functions"
                f" {', '.join(sorted(MACROS))}."
            )


@dataclass(frozen=True, slots=True)
class BoundTemplate:
    """Template of one option of a component; calling it with variables returns the option's value.

    It stores the variables that are the same for all requests: ``parameters`` and ``config``.
    """

    template: Template
    constants: Mapping[str, Any] = field(hash=False, repr=False)
    """Variables that do not depend on the scope: ``parameters``, and ``config`` if known."""
    kind: str
    """Kind of the field: ``text``, ``value`` or ``condition``."""
    types: tuple[type, ...] = ()
    """Types that a literal may have; () allows all types."""
    empty: Any = ""
    """Value of the field if the rendered text is empty."""
    place: str = field(default="", compare=False)
    """Position in the manifest, for messages."""

    def __call__(self, scope: Mapping[str, Any]) -> Any:
        """Render the template with the variables in ``scope`` and return the value of the option.

        A condition that compares incompatible types is true, as in airbyte-cdk. A condition that
        reads an attribute of an undefined value is false. In a value inside a mapping or list, such
        an access results in None.

        Raises:
            ManifestError: The template fails, or reads an attribute of an undefined value in any
                other option.
        """
        try:
            text = self.template.render(scope, self.constants)
        except UndefinedError as error:
            if self.kind == "condition":
                return False
            if self.empty is None:
                return None
            raise self._make_error(error) from None
        except TypeError as error:
            if self.kind == "condition":
                _warn(str(self._make_error(error)))
                return True
            raise self._make_error(error) from None
        except ManifestError as error:
            raise self._make_error(error) from None
        return parse_option(text, self.kind, self.types, self.empty)

    def render_parts(self, scope: Mapping[str, Any]) -> list[str]:
        """Render the template to a list of texts: a `DataText` for inserted data, else a str.

        The str parts are the template's own text. If a value inside a mapping or list reads an
        attribute of an undefined value, return [].

        Raises:
            ManifestError: The template fails, or reads an attribute of an undefined value.
        """
        try:
            return self.template.render_parts(scope, self.constants)
        except UndefinedError as error:
            if self.empty is None:
                return []
            raise self._make_error(error) from None
        except (TypeError, ManifestError) as error:
            raise self._make_error(error) from None

    def _make_error(self, error: UndefinedError | TypeError | ManifestError) -> ManifestError:
        """Return a ManifestError about an error while rendering, with the option's position."""
        template = f"the template {self.template.text!r}"
        if isinstance(error, ManifestError):
            message = error.message
        elif isinstance(error, UndefinedError):
            message = f"{template} accesses a part of an undefined value: {error.message}."
        else:
            message = f"{template} fails: {self.template.describe_error(error)}"
        return ManifestError(message, place=self.place)


@lru_cache(maxsize=1_024)
def _warn(message: str) -> None:
    """Log a warning, unless the same text was logged before in this process."""
    _log.warning("%s", message)


@lru_cache(maxsize=8_192)
def compile_template(text: str) -> Template:
    """Compile a Jinja template; equal texts share one result.

    Raises:
        ManifestError: The syntax is invalid, or the template uses an unknown name.
    """
    return Template(text)


def find_config_keys(text: str) -> frozenset[str]:
    """Return the config keys in a template, such as ``a`` in ``{{ config['a'] }}``.

    The result is empty if the text is not a valid template.
    """
    try:
        tree, names = _parse(text)
    except ManifestError:
        return frozenset()
    return frozenset(_find_config_keys(tree)) if _CONFIG in names else frozenset()


def _find_config_keys(tree: nodes.Template) -> Iterator[str]:
    """Yield the config keys that a parsed template accesses.

    Recognized forms are ``config['a']``, ``config.a`` and ``config.get('a')``.
    """
    for item in tree.find_all(nodes.Getitem):
        if _is_config(item.node) and isinstance(item.arg, nodes.Const):
            yield str(item.arg.value)
    for attribute in tree.find_all(nodes.Getattr):
        if _is_config(attribute.node) and not hasattr(dict, attribute.attr):
            yield attribute.attr
    for call in tree.find_all(nodes.Call):
        method = call.node
        if isinstance(method, nodes.Getattr) and method.attr == "get" and _is_config(method.node):
            yield from (str(arg.value) for arg in call.args[:1] if isinstance(arg, nodes.Const))


def _is_config(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Name) and node.name == _CONFIG


def _parse(text: str) -> tuple[nodes.Template, frozenset[str]]:
    """Parse a template; return (syntax tree, names of the variables that it uses).

    Raises:
        ManifestError: The text is too long, or not a valid template.
    """
    if len(text) > _MAX_LENGTH:
        raise ManifestError(
            f"the template {_format_template(text)} has {len(text):,} characters;"
            f" {_MAX_LENGTH:,} are allowed."
        )
    try:
        with warnings.catch_warnings():
            # Hide Python's warnings about escapes such as "\\d" in a template.
            warnings.simplefilter("ignore", DeprecationWarning)
            tree = _SANDBOX.parse(text)
            return tree, frozenset(meta.find_undeclared_variables(tree))
    except TemplateError as error:
        raise ManifestError(
            f"the template {text!r} does not parse: {_format_error(error)}"
        ) from None
    except RecursionError:
        raise ManifestError(
            f"the template {_format_template(text)} is nested too deeply: simplify it."
        ) from None
    except ValueError as error:  # a number of more than 4,300 digits
        raise ManifestError(
            f"the template {_format_template(text)} does not parse: {error}."
        ) from None


def _format_template(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…")


def _format_error(error: BaseException) -> str:
    if isinstance(error, TemplateError):
        return error.message or type(error).__name__
    return f"{type(error).__name__}: {error}"


def _is_volatile(tree: nodes.Template) -> bool:
    calls_function = any(name.name in NON_DETERMINISTIC for name in tree.find_all(nodes.Name))
    return calls_function or any(node.name == "random" for node in tree.find_all(nodes.Filter))


def _compile_jinja(tree: nodes.Template) -> Callable[[Mapping[str, Any]], str]:
    """Return a function that renders a parsed template with Jinja.

    Its Jinja context has only the names that the template uses, which is five times as fast as
    Jinja's own ``render``.
    """
    names = {name.name for name in tree.find_all(nodes.Name)}
    template = _SANDBOX.compiled(tree)
    if "self" in names or template.blocks:  # both need Jinja's own context
        render_template: Callable[[Mapping[str, Any]], str] = template.render
        return limit_rendering()(render_template)
    functions = {name: _SANDBOX.globals[name] for name in names & _SANDBOX.globals.keys()}
    root, join = template.root_render_func, _SANDBOX.concat

    @limit_rendering()
    def render(scope: Mapping[str, Any]) -> str:
        variables: Any = {**functions, **scope} if functions else scope
        return join(root(Context(_SANDBOX, variables, None, {})))

    return render


def _mark_text(value: Any) -> str:
    """Return a value that a template outputs as text, of a class that shows if it is data.

    Text written in the manifest (`OwnText`) becomes a str. Any other value is data from a response
    or the config, and becomes a `_DataOutput`.
    """
    return str(value) if value.__class__ is OwnText else _DataOutput(decimals_to_floats(value))


class _DataOutput(str):
    """Rendered text that comes from data, such as an API response or the config.

    Jinja converts results with ``str()``, which keeps this class.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return self


_MARKING_SANDBOX: Final = Sandbox(_mark_text)
"""Jinja environment that marks data in rendered text, to distinguish it from template text."""


@lru_cache(maxsize=1_024)
def _compile_parts(text: str) -> Callable[[Mapping[str, Any]], list[str]]:
    """Return a function that renders a template to a list of texts.

    Inserted data becomes a `DataText`, the template's own text a str.
    """
    root = _MARKING_SANDBOX.compiled(_MARKING_SANDBOX.parse(text)).root_render_func

    def render(scope: Mapping[str, Any]) -> list[str]:
        with limit_rendering():
            variables = {**_MARKING_SANDBOX.globals, **scope}
            parts = list(root(Context(_MARKING_SANDBOX, variables, None, {})))
            return [DataText(part) if part.__class__ is _DataOutput else part for part in parts]

    return render


# Fast path: look-ups with text around them


def _compile_fast(
    tree: nodes.Template, names: frozenset[str]
) -> Callable[[Mapping[str, Any]], str] | None:
    """Return a function that renders a template without Jinja, which is faster.

    Return None if the template contains more than text and simple look-ups, for example a filter.
    ``tree`` is the parsed template, and ``names`` are its variables.
    """
    if len(tree.body) != 1 or not isinstance(tree.body[0], nodes.Output):
        return None
    parts: list[str | _Lookup] = []
    for node in tree.body[0].nodes:
        part = node.data if isinstance(node, nodes.TemplateData) else _compile_lookup(node, names)
        if part is None:
            return None
        parts.append(part)
    if len(parts) == 1 and callable(parts[0]):
        only = parts[0]
        return lambda scope: str(decimals_to_floats(only(scope)))
    return lambda scope: "".join(
        [part if isinstance(part, str) else str(decimals_to_floats(part(scope))) for part in parts]
    )


def _compile_lookup(node: nodes.Node, names: frozenset[str]) -> _Lookup | None:
    """Compile a template expression such as ``config['a'].b``; return None for any other kind.

    The result is a function that takes a dict of variables and returns the expression's value.
    ``names`` are the variables of the template.
    """
    if isinstance(node, nodes.Name):
        name = node.name
        return (lambda scope: scope[name]) if name in names else None
    if isinstance(node, nodes.Getattr):
        inner, attribute = _compile_lookup(node.node, names), node.attr
        return None if inner is None else _compile_attribute(inner, attribute)
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        inner, key = _compile_lookup(node.node, names), node.arg.value
        return None if inner is None else _compile_item(inner, key)
    return None


def _compile_attribute(inner: _Lookup, name: str) -> _Lookup:
    get_attribute, is_dict_attribute = _SANDBOX.getattr, hasattr(dict, name)

    def get(scope: Mapping[str, Any]) -> Any:
        holder = inner(scope)
        if not is_dict_attribute and holder.__class__ is dict and name in holder:
            return holder[name]
        return get_attribute(holder, name)

    return get


def _compile_item(inner: _Lookup, key: Any) -> _Lookup:
    get_item = _SANDBOX.getitem

    def get(scope: Mapping[str, Any]) -> Any:
        holder = inner(scope)
        if holder.__class__ is dict and key in holder:
            return holder[key]
        return get_item(holder, key)

    return get
