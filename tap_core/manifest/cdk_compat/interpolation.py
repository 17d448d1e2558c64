"""Substitutes for airbyte-cdk's template classes, such as ``InterpolatedString``.

`tap_core.manifest.interpolation` renders the templates. A string is compiled when it is first
rendered, since airbyte-cdk also creates these objects for strings that are not valid templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any, cast

from tap_core.manifest.cdk_compat.type_guards import is_dict, is_list, is_mapping
from tap_core.manifest.components.query_properties import get_properties
from tap_core.manifest.interpolation import BoundTemplate, compile_template
from tap_core.manifest.literals import has_template, parse_option

__all__ = [
    "InterpolatedBoolean",
    "InterpolatedMapping",
    "InterpolatedRequestInputProvider",
    "InterpolatedRequestOptionsProvider",
    "InterpolatedString",
    "RequestInput",
    "evaluate",
]

RequestInput = str | Mapping[str, Any]


def evaluate(
    value: Any, config: Mapping[str, Any], parameters: Mapping[str, Any], **variables: Any
) -> Any:
    """Render all templates in a value, including those in nested mappings and lists.

    ``variables`` are template variables in addition to config and parameters, such as ``record``.
    """
    if isinstance(value, InterpolatedString):
        return value.eval(config, **variables)
    if isinstance(value, str):
        return _render(value, "value", config, parameters, variables)
    if is_mapping(value):
        return {
            evaluate(key, config, parameters, **variables): evaluate(
                item, config, parameters, **variables
            )
            for key, item in value.items()
        }
    if is_list(value):
        return [evaluate(item, config, parameters, **variables) for item in value]
    return value


def _render(
    text: str,
    kind: str,
    config: Mapping[str, Any],
    parameters: Mapping[str, Any],
    variables: Mapping[str, Any],
    types: tuple[type, ...] = (),
) -> Any:
    """Return the value of a text that may contain a template.

    ``kind`` is ``text``, ``value`` or ``condition``, and ``variables`` are further template
    variables. ``types`` are the types that a literal may have; other literals stay text. () allows
    all types.
    """
    if not has_template(text):
        return parse_option(text, kind, types)
    constants: dict[str, Any] = {
        "stream_slice": {},
        "next_page_token": None,
        "config": config,
        "parameters": parameters,
    }
    return BoundTemplate(compile_template(text), constants, kind, types)(variables)


class _Parametrized:
    """Base class of template objects; it stores the template variable ``parameters``."""

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = parameters or {}


@dataclass
class InterpolatedString(_Parametrized):
    """String that may contain a Jinja template, with the ``$parameters`` of its component."""

    string: str
    parameters: InitVar[Mapping[str, Any]]
    default: str | None = None

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        super().__post_init__(parameters)
        self.default = self.default or self.string

    def eval(
        self,
        config: Mapping[str, Any],
        *,
        valid_types: tuple[type, ...] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Render the template in the string and return the result; ``'3'`` becomes the number 3.

        Args:
            config: The connector's config.
            valid_types: Types of literals to which the result is converted; other results stay
                text. None allows all types.
            kwargs: Additional template variables, such as ``record`` or ``stream_slice``.
        """
        types = valid_types or ()
        return _render(self.string, "value", config, self._parameters, kwargs, types)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InterpolatedString) and self.string == other.string

    def __hash__(self) -> int:
        return hash(self.string)

    @classmethod
    def create(cls, string_or_interpolated: Any, *, parameters: Mapping[str, Any]) -> Any:
        """Create an InterpolatedString from a string; return an InterpolatedString unchanged."""
        if isinstance(string_or_interpolated, InterpolatedString):
            return string_or_interpolated
        is_text = isinstance(string_or_interpolated, str)
        text = string_or_interpolated if is_text else str(string_or_interpolated)
        return cls(string=text, parameters=parameters)  # a non-string value is not a template


@dataclass
class InterpolatedBoolean(_Parametrized):
    """Condition in a manifest: a Jinja template, or the constant True or False."""

    condition: str
    parameters: InitVar[Mapping[str, Any]]

    def eval(self, config: Mapping[str, Any], **additional_parameters: Any) -> bool:
        """Render the condition and return its truth value.

        ``additional_parameters`` are additional template variables, such as ``record``.
        """
        condition: Any = self.condition
        if isinstance(condition, bool):
            return condition
        return bool(
            _render(condition, "condition", config, self._parameters, additional_parameters)
        )


@dataclass
class InterpolatedMapping(_Parametrized):
    """Mapping whose keys and values may contain Jinja templates."""

    mapping: Mapping[str, Any]
    parameters: InitVar[Mapping[str, Any]]

    def eval(self, config: Mapping[str, Any], **additional_parameters: Any) -> dict[str, Any]:
        """Return a dict with all templates in the keys and values rendered.

        ``additional_parameters`` are additional template variables, such as ``record``.
        """
        return cast(
            dict[str, Any],
            evaluate(self.mapping, config, self._parameters, **additional_parameters),
        )


@dataclass
class InterpolatedRequestInputProvider(_Parametrized):
    """Provider of one part of a request, such as its headers, from templates.

    `request_inputs` is one template, or a mapping of templates.
    """

    parameters: InitVar[Mapping[str, Any]]
    request_inputs: Any = None
    config: Mapping[str, Any] = field(default_factory=dict)

    def eval_request_inputs(
        self,
        stream_slice: Mapping[str, Any] | None = None,
        next_page_token: Mapping[str, Any] | None = None,
        valid_key_types: Any = None,  # noqa: ARG002  (airbyte-cdk's signature)
        valid_value_types: Any = None,  # noqa: ARG002
    ) -> Any:
        """Render `request_inputs` and return the result.

        Members of a mapping with the value None or an empty string are omitted. ``valid_key_types``
        and ``valid_value_types`` are ignored.
        """
        rendered = evaluate(
            self.request_inputs or {},
            self.config,
            self._parameters,
            stream_slice=stream_slice or {},
            next_page_token=next_page_token,
        )
        if not is_dict(rendered):
            return rendered
        return {name: item for name, item in rendered.items() if item is not None and item != ""}


@dataclass
class InterpolatedRequestOptionsProvider(_Parametrized):
    """Provider of a request's query parameters, headers and body, declared as templates."""

    parameters: InitVar[Mapping[str, Any]]
    config: Mapping[str, Any] = field(default_factory=dict)
    request_parameters: Any = None
    request_headers: Any = None
    request_body: Any = None
    request_body_data: Any = None
    request_body_json: Any = None
    query_properties_key: str | None = None

    def _render(
        self, inputs: Any, stream_slice: Mapping[str, Any] | None, token: Mapping[str, Any] | None
    ) -> Any:
        provider = InterpolatedRequestInputProvider(self._parameters, inputs, self.config)
        return provider.eval_request_inputs(stream_slice, token)

    def get_request_params(
        self,
        *,
        stream_state: Mapping[str, Any] | None = None,  # noqa: ARG002  (airbyte-cdk's signature)
        stream_slice: Mapping[str, Any] | None = None,
        next_page_token: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the query parameters of a request, rendered for a stream slice and page token."""
        rendered = self._render(self.request_parameters, stream_slice, next_page_token)
        params: Mapping[str, Any] = rendered if is_mapping(rendered) else {}
        if not self.query_properties_key:
            return params
        return {**params, self.query_properties_key: ",".join(get_properties(stream_slice))}

    def get_request_headers(
        self,
        *,
        stream_state: Mapping[str, Any] | None = None,  # noqa: ARG002
        stream_slice: Mapping[str, Any] | None = None,
        next_page_token: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the headers of a request, rendered for a stream slice and a page token."""
        return self._render(self.request_headers, stream_slice, next_page_token)

    def get_request_body_data(
        self,
        *,
        stream_state: Mapping[str, Any] | None = None,  # noqa: ARG002
        stream_slice: Mapping[str, Any] | None = None,
        next_page_token: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the body of a request: a string, or a mapping to send as form fields."""
        return self._render(self.request_body_data, stream_slice, next_page_token)

    def get_request_body_json(
        self,
        *,
        stream_state: Mapping[str, Any] | None = None,  # noqa: ARG002
        stream_slice: Mapping[str, Any] | None = None,
        next_page_token: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the JSON body of a request, rendered for a stream slice and a page token."""
        return self._render(self.request_body_json, stream_slice, next_page_token)
