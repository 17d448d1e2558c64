"""Builder that converts the YAML nodes of a manifest to component objects.

The builder contains no code for single components: it converts each option to the type of the
dataclass field with the same name. A template that uses only the config is rendered when the
component is built; other templates are rendered for each request. Every error contains the file,
the line and the path of keys. The same code builds a connector and lints a manifest: the linter
collects the errors, and skips parts that depend on a config that it does not have.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from tap_core.config.similar_names import suggest
from tap_core.manifest.builder_options import (
    NOT_SUPPORTED,
    WITHOUT_EFFECT,
    find_unknown_options,
)
from tap_core.manifest.coercion import coerce_scalar, describe_expected_type
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.literals import has_template, parse_option
from tap_core.manifest.loader import Manifest
from tap_core.manifest.nodes import (
    UNKNOWN,
    UNKNOWN_OPTION,
    DataMapping,
    DataText,
    MappingNode,
    to_plain,
)
from tap_core.manifest.parameters import apply_own_parameters
from tap_core.manifest.registry import MODULES, get_component_class, is_component
from tap_core.manifest.type_hints import (
    ComponentPlan,
    FieldType,
    get_component_plan,
    parse_annotation,
)

__all__ = ["Builder", "build_component", "is_accepted"]

_log: Final = logging.getLogger(__name__)

_ANY_COMPONENT: Final = FieldType(components=(object,))
_CUSTOM: Final = "Custom"
_CODE_FROM_DATA: Final = "the manifest must name custom classes; responses and config cannot."
_TYPE: Final = "type"
_JSON_TYPES: Final = frozenset({str, int, float, bool, list, dict})


def build_component(
    manifest: Manifest,
    node: Any,
    expected: Any,
    config: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    warn: Callable[[str], object] = _log.warning,
) -> Any:
    """Build the Python component or value that a node of an Airbyte manifest declares.

    Args:
        manifest: The loaded manifest.
        node: The part of the manifest to build; None returns None.
        expected: A component class, or any type hint that a component's field may have.
        config: The connector's config; None means {}.
        parameters: The ``$parameters`` for a node that is not a component.
        warn: Function that is called with the message of each problem that is not an error.

    Raises:
        ManifestError: The node cannot be built; the error contains file, line and keys.
    """
    return Builder(manifest, config or {}, warn=warn).build(node, expected, parameters)


@dataclass(frozen=True, slots=True)
class _Position:
    """Position of a YAML node in the manifest: its path of keys and its line, for error messages.

    It also contains the ``$parameters`` of the node, and those template variables that only few
    components may use.
    """

    path: str
    line: int
    parameters: Mapping[str, Any]
    restricted_names: frozenset[str] = frozenset()
    """Restricted template variables that are allowed at this position, such as ``stream_state``."""

    def child(self, node: dict[Any, Any] | list[Any], key: Any) -> _Position:
        """Return the position of the value at a key or list index of ``node``, the current node.

        If its line is unknown, the line of the current node is used.
        """
        step = f"[{key}]" if isinstance(key, int) else f".{key}"
        path = f"{self.path}{step}".lstrip(".")
        lines: Any = getattr(node, "lines", None) or {}
        line: int | None = lines[key] if isinstance(lines, list) else lines.get(key)
        return replace(self, path=path, line=line or self.line)

    def for_component(self, cls: Any, node: MappingNode) -> _Position:
        """Return a copy of this position with the restricted variables of a component class.

        Restricted variables, such as ``stream_state``, are available only in the templates of some
        components. A class lists them in its static method ``get_restricted_names``, whose argument
        is the component's YAML ``node``.
        """
        get_names = getattr(cls, "get_restricted_names", None)
        if get_names is None:
            return self
        return replace(self, restricted_names=frozenset(get_names(node)))


@dataclass(frozen=True)
class Builder:
    """Builder of Python component objects from the YAML nodes of an Airbyte manifest.

    If `config` is None, as in a linter, templates that use the config are checked, not rendered.
    """

    manifest: Manifest
    config: Mapping[str, Any] | None = None
    warn: Callable[[str], object] = _log.warning
    """Function that is called with each warning; unused if the manifest collects its problems."""
    checks_incomplete: bool = False
    """True if components with unknown options are created, only to check their other options."""

    def build(self, node: Any, expected: Any, parameters: Mapping[str, Any] | None = None) -> Any:
        """Build the component or value that a YAML node declares; return None if it has a problem.

        Args:
            node: The node of the manifest to build; None returns None.
            expected: A component class, or any type hint that a component's field may have.
            parameters: The ``$parameters`` for a node that is not a component.

        Raises:
            ManifestError: The node has a problem, and the manifest does not collect its problems.
        """
        if node is None:
            return None
        position = (
            _Position(node.path, node.line, node.parameters)
            if isinstance(node, MappingNode)
            else _Position("", 0, parameters or {})
        )
        built = self._convert(parse_annotation(expected), node, position)
        return None if built is UNKNOWN else built

    def _report(self, position: _Position, message: str, *, is_error: bool = True) -> Any:
        """Report a problem of a node, and return the marker `UNKNOWN` as the node's value.

        The problem is collected if the manifest collects its problems. Otherwise it is raised or,
        if ``is_error`` is False, logged as a warning.
        """
        if is_error or self.manifest.problems is not None:
            self.manifest.report_problem(position.line, position.path, message, is_error=is_error)
        else:
            self.warn(f"{self._format_place(position)}: {message}")
        return UNKNOWN

    def _format_place(self, position: _Position) -> str:
        return self.manifest.format_place(position.line, position.path)

    # Conversion by the kind of node

    def _convert(self, expected: FieldType, node: Any, position: _Position) -> Any:
        if node is UNKNOWN or expected.kind == "draft":
            return node
        if node is None or expected.is_any:
            return to_plain(node)
        if expected.kind == "node":
            return self._keep_unbuilt(node, position)
        return self._choose_conversion(expected, node)(expected, node, position)

    def _choose_conversion(
        self, expected: FieldType, node: Any
    ) -> Callable[[FieldType, Any, _Position], Any]:
        if isinstance(node, list):
            return self._convert_list
        if isinstance(node, DataMapping):
            return self._convert_data
        if isinstance(node, MappingNode):
            return self._convert_mapping
        return self._build_interpolated if expected.kind else self._build_constant

    def _convert_data(self, expected: FieldType, node: DataMapping, position: _Position) -> Any:
        """Convert a mapping from an API response or the config to the type of an option.

        Such a mapping is never built as a component, even if it has a ``type``.
        """
        if expected.kind:
            return str(node) if expected.kind == "text" else to_plain(node)
        if expected.value is None:
            return self._report(
                position,
                "a component must be declared in the manifest, not in a response or the config.",
            )
        return {
            key: self._convert_inner(expected.value, value, position.child(node, key))
            for key, value in node.items()
        }

    def _keep_unbuilt(self, node: Any, position: _Position) -> Any:
        """Return the YAML node of a component that is built later, not now.

        A linter also builds the component now, but only to report its problems.
        """
        if not isinstance(node, MappingNode):
            return self._report(position, "a component must be a mapping with a `type`.")
        if self.manifest.problems is not None:
            self._build_component(_ANY_COMPONENT, node, position)
        return node

    def _convert_mapping(self, expected: FieldType, node: MappingNode, position: _Position) -> Any:
        if expected.kind == "value":
            convert = partial(self._convert_nested_value, expected)
            return self._convert_values(apply_own_parameters(node), position, convert)
        is_typed = isinstance(node.get(_TYPE), str) or "class_name" in node
        if expected.components and (is_typed or expected.value is None):
            return self._build_component(expected, node, position)
        if expected.value is None:
            return self._coerce(expected, node, position)
        return self._convert_values(node, position, partial(self._convert_inner, expected.value))

    def _convert_values(
        self, node: MappingNode, position: _Position, convert: Callable[[Any, _Position], Any]
    ) -> Any:
        converted: dict[Any, Any] = {}
        for key, value in node.items():
            inner_position = position.child(node, key)
            converted[self._convert_key(key, inner_position)] = convert(value, inner_position)
        return UNKNOWN if _has_unknown([*converted, *converted.values()]) else converted

    def _convert_key(self, key: Any, position: _Position) -> Any:
        if not isinstance(key, str):
            return str(key)
        return self._build_interpolated(FieldType(kind="value", types=(str,)), key, position)

    def _convert_inner(self, expected: FieldType, node: Any, position: _Position) -> Any:
        convert = self._convert_nested_value if expected.kind else self._convert
        return convert(expected, node, position)

    def _convert_nested_value(self, expected: FieldType, node: Any, position: _Position) -> Any:
        """Convert a value inside a mapping or list to the type ``expected``.

        An empty text becomes None here. As the value of an option, it stays an empty text. A
        mapping is built as a component only if ``expected`` accepts components; else it is data.
        """
        if isinstance(node, str):
            return self._build_interpolated(expected, node, position, empty=None)
        if expected.components and isinstance(node, MappingNode) and is_component(node):
            return self._build_component(expected, node, position)
        return self._convert(expected, node, position)

    def _convert_list(self, expected: FieldType, node: list[Any], position: _Position) -> Any:
        """Convert each item of a YAML list to the item type of ``expected``.

        Return the marker `UNKNOWN` if an item has a problem (after reporting it), or if the item
        depends on a config that is not known yet.
        """
        inner = expected.item
        if inner is None:
            if expected.kind != "value":
                return self._coerce(expected, node, position)
            inner = expected
        if None in node and not (inner.kind or inner.is_any or inner.is_optional):
            return self._report(
                position,
                f"item {node.index(None)} of this list is null: it must be"
                f" {describe_expected_type(inner)}.",
            )
        items = [
            self._convert_inner(inner, item, position.child(node, index))
            for index, item in enumerate(node)
        ]
        return UNKNOWN if _has_unknown(items) else items

    # Templates

    def _build_interpolated(
        self, expected: FieldType, node: Any, position: _Position, *, empty: Any = ""
    ) -> Any:
        """Return the value of an option whose text may contain a Jinja template.

        A template that uses only the config is rendered now. For any other template return a
        `BoundTemplate`, a callable that renders it later.

        Args:
            expected: The type of the option.
            node: The value of the option in the manifest.
            position: The position of the option in the manifest.
            empty: The value to return for an empty text.
        """
        is_text = expected.kind == "text"
        if not isinstance(node, str):
            return str(node) if is_text and not isinstance(node, MappingNode) else node
        if not has_template(node):  # Jinja drops one final newline too
            return parse_option(node.removesuffix("\n"), expected.kind, expected.types, empty)
        types = (str, type(None)) if is_text and expected.is_optional else expected.types
        bound = self._bind_template(node, position, expected.kind, types, empty)
        if bound is UNKNOWN:
            return bound
        if (
            not bound.template.is_fixed
            or self._depends_on_unknown(bound, position)
            or _must_stay_unrendered(bound, position)
        ):
            return bound
        try:
            value = bound({})
        except ManifestError as error:  # the value may never be used
            self._report(position, error.message, is_error=False)
            return bound
        return bound if expected.is_document and isinstance(value, (dict, list)) else value

    def _bind_template(
        self,
        text: str,
        position: _Position,
        kind: str,
        types: tuple[type, ...] = (),
        empty: Any = "",
    ) -> Any:
        """Compile the Jinja template of an option and return it as a `BoundTemplate`.

        Return the marker `UNKNOWN` after reporting a problem in the template. Jinja is imported
        when the first template is compiled.

        Args:
            text: The text of the template.
            position: The position of the option in the manifest.
            kind: The kind of the option: ``text``, ``value`` or ``condition``.
            types: The types that a literal in the result may have; () allows all types.
            empty: The value of the option if the template renders as an empty text.
        """
        from tap_core.manifest.interpolation import (
            RESTRICTED_NAMES,
            STATE,
            BoundTemplate,
            compile_template,
        )

        constants: dict[str, Any] = {"parameters": position.parameters}
        if self.config is not None:
            constants["config"] = self.config
        try:
            bound = BoundTemplate(
                compile_template(text), constants, kind, types, empty, self._format_place(position)
            )
        except ManifestError as error:
            return self._report(position, error.message)
        for name in sorted((bound.template.names & RESTRICTED_NAMES) - position.restricted_names):
            reason = "is available only in a components_mapping."
            if name == STATE:
                reason = "is no longer available: use `stream_interval`."
            return self._report(position, f"the template {text!r} uses `{name}`, which {reason}")
        return bound

    def _depends_on_unknown(self, bound: Any, position: _Position) -> bool:
        """Return True if a template uses settings or parameters that a linter does not know."""
        names = bound.template.names
        if "parameters" in names and any(
            value is UNKNOWN for value in position.parameters.values()
        ):
            return True
        return self.config is None and "config" in names

    def _build_constant(self, expected: FieldType, node: Any, position: _Position) -> Any:
        """Return the value of an option that is evaluated now, because it cannot vary per request.

        Return the marker `UNKNOWN` after reporting a problem in the value. If a template in the
        value uses a config that is not known yet, return a function from the config to the value;
        return `UNKNOWN` if the option accepts no functions.
        """
        if not isinstance(node, str) or not has_template(node):
            return self._coerce(expected, node, position)
        if expected.is_plain:
            message = f"this option takes no template: the text {node!r} is used as it is."
            self._report(position, message, is_error=False)
            return node
        value = self._render_constant(expected, node, position)
        if value is UNKNOWN or callable(value):
            return value
        if value == "" and expected.is_unset_if_empty:
            return None
        try:
            return coerce_scalar(expected, value)
        except ValueError:  # its text contains the value, which may be a secret of the config
            type_text = describe_expected_type(expected)
            return self._report(position, f"the template {node!r} does not give {type_text}.")

    def _render_constant(self, expected: FieldType, text: str, position: _Position) -> Any:
        types = (str, type(None)) if expected.is_optional else (str,)
        bound = self._bind_template(
            text, position, "value", types if expected.scalars == {str} else ()
        )
        if bound is UNKNOWN:
            return bound
        if bound.template.needs_scope:
            names = ", ".join(sorted(bound.template.names - {"config", "parameters"}))
            return self._report(
                position,
                f"the template {text!r} uses {names}: this option is evaluated before"
                " any request, and can use only config and parameters.",
            )
        if self._depends_on_unknown(bound, position):
            return (lambda config: bound({"config": config})) if expected.is_callable else UNKNOWN
        try:
            return bound({})
        except ManifestError as error:
            return self._report(position, error.message)

    def _coerce(self, expected: FieldType, node: Any, position: _Position) -> Any:
        try:
            return coerce_scalar(expected, node)
        except ValueError as error:
            return self._report(position, str(error))

    # Components

    def _build_component(self, expected: FieldType, node: MappingNode, position: _Position) -> Any:
        position = replace(
            position,
            line=node.line or position.line,
            parameters=node.parameters or position.parameters,
        )
        if _is_code_from_data(node):
            return self._report(position, _CODE_FROM_DATA)
        cls = self._find_class(expected, node, position)
        if cls is UNKNOWN:
            return cls
        position = position.for_component(cls, node)
        plan = get_component_plan(cls)
        if "class_name" in plan.field_types and "fields" in plan.field_types:
            return self._build_custom(cls, plan, node, position)
        self._check_options(plan, node, position)
        node = self._drop_unused_keys(cls, node)
        values: dict[str, Any] = {}
        for name, option_type in self._get_option_types(cls, plan, node):
            if not _is_unset(option_type, node.get(name)):
                option_position = position.child(node, name)
                values[name] = self._convert_option(option_type, node[name], option_position)
        missing = sorted(plan.required - values.keys())
        if missing:
            if UNKNOWN in node:  # unknown parameters may set the missing options
                return UNKNOWN
            kind = node.get(_TYPE) or cls.__name__
            return self._report(position, f"{kind} needs {', '.join(missing)}.")
        return self._instantiate(cls, plan, values, position)

    def _convert_option(self, expected: FieldType, node: Any, position: _Position) -> Any:
        """Convert the value of an option; of the kind ``value`` check the type of a constant."""
        value = self._convert(expected, node, position)
        is_constant = type(value) in _JSON_TYPES and value != ""
        if expected.constant and is_constant and not (isinstance(node, str) and has_template(node)):
            try:
                coerce_scalar(expected.constant, value)
            except ValueError as error:
                return self._report(position, str(error))
        return value

    def _drop_unused_keys(self, cls: type, node: MappingNode) -> MappingNode:
        """Return a component's YAML node without options that have no effect with this config.

        A component class that supports this has a static method ``get_used_keys``. For example, the
        method of SelectiveAuthenticator drops the authenticators that the config does not select.
        """
        get_used_keys = getattr(cls, "get_used_keys", None)
        if get_used_keys is None or not self.config:
            return node
        used = MappingNode(node, line=node.line, lines=node.lines)
        for option, keys in get_used_keys(node, self.config).items():
            value = node[option]
            used_items = {key: inner for key, inner in value.items() if key in keys}
            used[option] = MappingNode(used_items, line=value.line, lines=value.lines)
        return used

    @staticmethod
    def _get_option_types(
        component: type, plan: ComponentPlan, node: MappingNode
    ) -> Iterable[tuple[str, FieldType]]:
        """Return the name and the expected type of each option of a component class.

        A class can narrow the types, depending on other options in ``node``. Its static method
        ``get_literal_types`` then returns the Python types to which a rendered template may be
        converted.
        """
        get_literal_types = getattr(component, "get_literal_types", None)
        if get_literal_types is None:
            return plan.field_types.items()
        types = get_literal_types(node)
        return [
            (name, replace(field_type, types=types[name]) if name in types else field_type)
            for name, field_type in plan.field_types.items()
        ]

    def _instantiate(
        self, cls: type, plan: ComponentPlan, values: dict[str, Any], position: _Position
    ) -> Any:
        if _has_unknown(values.values()):
            if not self.checks_incomplete:
                return UNKNOWN
            values = {
                name: UNKNOWN_OPTION if value is UNKNOWN else value
                for name, value in values.items()
            }
        injected: dict[str, Any] = {
            "parameters": position.parameters,
            "config": self.config or {},
            "folder": self.manifest.folder,
            "place": self._format_place(position),
        }
        values.update({name: injected[name] for name in plan.injected})
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            try:
                component = cls(**values)
            except ManifestError as error:
                component = self._report(position, error.message)
            except ValueError as error:
                component = self._report(position, str(error))
            except TypeError:
                if not self.checks_incomplete:
                    raise
                component = UNKNOWN  # a check needs the value of an unknown option
        for warning in caught:
            self._report(position, str(warning.message), is_error=False)
        return component

    def _find_class(self, expected: FieldType, node: MappingNode, position: _Position) -> Any:
        kind = node.get(_TYPE)
        if kind is UNKNOWN:
            return kind
        classes = [cls for cls in expected.components if not getattr(cls, "_is_protocol", False)]
        if kind is None:
            if len(classes) == 1 and len(expected.components) == 1:
                return classes[0]
            return self._report(position, "this component has no `type`.")
        named = [cls for cls in classes if getattr(cls, "TYPE", None) == kind]
        cls = named[0] if named else get_component_class(str(kind))
        if cls is None:
            message = f"there is no component '{kind}'.{suggest(str(kind), MODULES)}"
            if str(kind) in NOT_SUPPORTED:
                message = f"the component '{kind}' is not supported."
            return self._report(position, message)
        if not any(is_accepted(cls, component) for component in expected.components):
            return self._report(position, f"the component '{kind}' is not allowed here.")
        return cls

    def _check_options(self, plan: ComponentPlan, node: MappingNode, position: _Position) -> None:
        known = plan.field_types.keys() | plan.ignored | node.filled | {_TYPE, *WITHOUT_EFFECT}
        kind = node.get(_TYPE) or "this component"
        for key in WITHOUT_EFFECT.keys() & node.keys():
            message = f"the option '{key}' is not supported: {WITHOUT_EFFECT[key]}."
            self._report(position.child(node, key), message, is_error=False)
        for key, is_error in find_unknown_options(node, known, self.manifest.parameter_names):
            effect = "" if is_error else " It is ignored."
            message = f"{kind} has no option '{key}'.{effect}{suggest(str(key), plan.field_types)}"
            if key in NOT_SUPPORTED:
                message = f"the option '{key}' of {kind} is not supported."
            self._report(position.child(node, key), message, is_error=is_error)

    def _build_custom(
        self, cls: type, plan: ComponentPlan, node: MappingNode, position: _Position
    ) -> Any:
        """Return the component that wraps the connector's Python class ``class_name``."""
        name = node.get("class_name")
        if _has_unknown(node.values()):
            return UNKNOWN
        if not isinstance(name, str):
            return self._report(position, f"{node.get(_TYPE)} needs class_name.")
        fields = {
            key: self._build_custom_field(value, position.child(node, key))
            for key, value in node.items()
            if key not in {_TYPE, "class_name"}
        }
        return self._instantiate(cls, plan, {"class_name": name, "fields": fields}, position)

    def _build_custom_field(self, node: Any, position: _Position) -> Any:
        """Build the components in an option of a custom class (``class_name``).

        Any value that is not a component is returned unchanged.
        """
        if isinstance(node, list):
            return [
                self._build_custom_field(item, position.child(node, index))
                for index, item in enumerate(node)
            ]
        if not isinstance(node, MappingNode):
            return node
        if is_component(node):
            if getattr(get_component_class(node[_TYPE]), "IS_BUILT_LATER", False):
                return node
            return self._build_component(_ANY_COMPONENT, node, position)
        return {
            key: self._build_custom_field(value, position.child(node, key))
            for key, value in node.items()
        }


def _is_unset(expected: FieldType, node: Any) -> bool:
    """Return True if ``node`` gives no value: null or, for an optional condition, an empty text."""
    is_optional_condition = expected.kind == "condition" and expected.is_optional
    return node is None or (is_optional_condition and node == "")


def _has_unknown(values: Iterable[Any]) -> bool:
    return any(value is UNKNOWN for value in values)


def _must_stay_unrendered(bound: Any, position: _Position) -> bool:
    """Return True if a template uses the config and must therefore be rendered later.

    This concerns only templates in ``components_mapping``. The later rendering marks config values
    as data, so that braces in them are not read as templates.
    """
    return "components_values" in position.restricted_names and "config" in bound.template.names


def _is_code_from_data(node: MappingNode) -> bool:
    """Return True if an API response or the config contains a Python class name to run.

    The builder rejects such a node, because only the manifest itself may set ``class_name``.
    """
    kind = node.get(_TYPE)
    is_custom = isinstance(kind, DataText) and kind.startswith(_CUSTOM)
    return is_custom or isinstance(node.get("class_name"), DataText)


def is_accepted(cls: type, expected: type) -> bool:
    """Return True if an option of type ``expected`` accepts components of the class ``cls``."""
    if not getattr(expected, "_is_protocol", False):
        return issubclass(cls, expected)
    if cls.__name__.startswith(_CUSTOM):
        return True
    names = [name for base in expected.__mro__ for name in vars(base) if not name.startswith("_")]
    fields = getattr(cls, "__dataclass_fields__", {})
    return all(hasattr(cls, name) or name in fields for name in names)
