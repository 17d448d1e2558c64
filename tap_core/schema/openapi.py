"""Schema source for the component schemas of an OpenAPI document.

A key is the name of a component. References may point to any location in the document, and to
other documents in its folder. A recursive reference becomes ``{}``. `OpenAPISchemaNormalizer`
converts OpenAPI keywords to JSON Schema.
Source: OpenAPI 2.0, 3.0.4 and 3.1.1, "Schema Object" and "Reference Object".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from urllib.parse import quote

from tap_core.exceptions import UnsupportedOpenAPISpec
from tap_core.schema.base import KeyT, SchemaPreprocessor, SchemaSource
from tap_core.schema.loading import format_location, load_document, resolve_sibling
from tap_core.schema.openapi_normalizer import OpenAPISchemaNormalizer
from tap_core.schema.references import resolve_schema_references
from tap_core.types import JsonSchema

if TYPE_CHECKING:
    from importlib.abc import Traversable

__all__ = ["OpenAPISchema"]

_COMPONENTS: Final = {"v2": ("definitions",), "v3": ("components", "schemas")}
"""Path to the component schemas in a document, by major version of OpenAPI."""


class OpenAPISchema(SchemaSource[KeyT]):
    """Schema source that looks up components of an OpenAPI 2.0, 3.0 or 3.1 document (JSON or YAML).

    Args:
        source: URL (http or https) or path of the document, a package resource, or the document
            itself as a dict.
        preprocessor: Converter of the schemas to JSON Schema, by default an
            `OpenAPISchemaNormalizer`.
    """

    def __init__(
        self,
        source: str | Path | Traversable | Mapping[str, Any],
        *args: Any,
        preprocessor: SchemaPreprocessor | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.source = source
        self._preprocessor = preprocessor or OpenAPISchemaNormalizer()
        self._referenced: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{format_location(self.source)}')"

    @cached_property
    def spec(self) -> dict[str, Any]:
        """OpenAPI document as a dict, loaded at first access.

        Raises:
            OSError: The document cannot be read.
            ValueError: The document is not valid JSON or YAML.
            UnsupportedSchemaFormatError: The document is neither a JSON nor a YAML file.
        """
        if isinstance(self.source, Mapping):
            return dict(self.source)
        return cast(dict[str, Any], load_document(self.source))

    @property
    def spec_version(self) -> Literal["v2", "v3"]:
        """Major version of OpenAPI that the document uses: ``v2`` or ``v3``.

        Raises:
            UnsupportedOpenAPISpec: The document has neither ``swagger`` nor ``openapi``.
        """
        if isinstance(self.spec, Mapping):
            if "swagger" in self.spec:
                return "v2"
            if "openapi" in self.spec:
                return "v3"
        msg = (
            f"Unknown OpenAPI specification format: '{format_location(self.source)}' has neither"
            " 'swagger' nor 'openapi'"
        )
        raise UnsupportedOpenAPISpec(msg)

    def get_unresolved_schema(self, key: KeyT) -> JsonSchema:
        """Return the schema for a key with its references not yet resolved.

        By default this is a ``$ref`` to the component named ``key``. Override the method to use
        other schemas, such as those of responses.
        """
        path = _COMPONENTS[self.spec_version]
        components: Any = self.spec
        for step in path:
            components = components.get(step, {})
        name = str(key)
        if name in components:
            name = quote(name.replace("~", "~0").replace("/", "~1"))
        return {"$ref": f"#/{'/'.join(path)}/{name}"}

    def resolve_schema(self, key: KeyT) -> JsonSchema:
        """Return the schema for a key with every ``$ref`` replaced by the schema it refers to.

        Raises:
            SchemaNotValidError: A reference cannot be resolved, or no component has this name.
        """
        return resolve_schema_references(
            self.get_unresolved_schema(key),
            {"": self.spec},
            cut_circles=True,
            retrieve=self._load_referenced,
        )

    def fetch_schema(self, key: KeyT) -> JsonSchema:
        """Return the schema of the component named ``key`` with its references resolved.

        The schema is not converted to JSON Schema yet; `get_schema` does that afterwards.
        """
        return self.resolve_schema(key)

    def _load_referenced(self, name: str) -> Any:
        """Return a document that the OpenAPI document refers to. It is loaded only once.

        ``name`` is the path of that document relative to the OpenAPI document.

        Raises:
            ValueError: The OpenAPI document is a dict, so it has no folder.
        """
        if isinstance(self.source, Mapping):
            msg = f"'{name}' cannot be read: the document is a dictionary and has no folder"
            raise ValueError(msg)  # noqa: TRY004 - the reference is wrong, not the type
        if name not in self._referenced:
            self._referenced[name] = load_document(
                resolve_sibling(self.source, name), redirects=False
            )
        return self._referenced[name]
