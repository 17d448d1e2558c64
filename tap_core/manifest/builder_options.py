"""Unknown options of a manifest component: sorted into errors and warnings.

airbyte-cdk ignores all unknown options, and published manifests have many: comments, and options or
parameters that belong to another component. Such options cause warnings. An option that is unknown
in all components and parameters of the manifest is an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, Final

from tap_core.manifest.nodes import MappingNode
from tap_core.manifest.registry import MODULES, get_component_class
from tap_core.manifest.type_hints import get_component_plan

__all__ = ["NOT_SUPPORTED", "WITHOUT_EFFECT", "find_unknown_options"]

NOT_SUPPORTED: Final = frozenset({"truncated_list_retriever"})
"""Options of Airbyte's components that this SDK does not support; using one is an error."""

WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "file_uploader": "files are not downloaded, only the records are read",
}
"""Options of Airbyte's components that cause a warning, with the reason for the warning."""

_MIN_SIMILARITY: Final = 0.75
"""Minimum similarity (difflib, 0 to 1) at which an unknown option counts as a misspelling."""
_COMMENTS: Final = frozenset({"$comment", "comment", "description", "title"})
_OUTDATED: Final = frozenset({"request_options_provider", "selector", "stream_slicer"})
"""Options of older versions of Airbyte's components that current versions have removed."""
_PUBLISHED: Final[Mapping[str, frozenset[str]]] = {
    "CursorPagination": frozenset({"extractorPath"}),
    "LegacyToPerPartitionStateMigration": frozenset({"Type"}),
    "SubstreamPartitionRouter": frozenset({"stream_name"}),
}
"""Options in published manifests that no version of Airbyte has used, by component type."""


def find_unknown_options(
    node: MappingNode, known: Collection[Any], parameters: Collection[Any]
) -> list[tuple[Any, bool]]:
    """Return (option, is_error) for each option of a component that its class does not define.

    An option is an error if this SDK does not support it. It is also an error if its name occurs
    nowhere else: as a parameter, in other components or in other versions of Airbyte's manifests.
    If some unknown options of the node are no errors, the others are errors only if they look
    misspelled.

    Args:
        node: The component's YAML node.
        known: The options of the component's class.
        parameters: The names of all ``$parameters`` in the manifest.
    """
    unknown = [option for option in node if option not in known and option not in _COMMENTS]
    if not unknown:
        return []
    published = _PUBLISHED.get(str(node.get("type")), frozenset())
    elsewhere = _get_all_options() | _OUTDATED | published | set(parameters)
    errors = [option for option in unknown if option not in elsewhere or option in NOT_SUPPORTED]
    if len(errors) < len(unknown):
        errors = _find_misspelled(errors, known)
    return [(option, option in errors) for option in unknown]


def _find_misspelled(names: Iterable[Any], known: Collection[Any]) -> list[Any]:
    texts = [*NOT_SUPPORTED, *map(str, known)]
    return [
        word for word in names if get_close_matches(str(word), texts, n=1, cutoff=_MIN_SIMILARITY)
    ]


@cache
def _get_all_options() -> frozenset[str]:
    """Return the option names of all component types of Airbyte manifests."""
    plans = [
        get_component_plan(cls)
        for name in MODULES
        if (cls := get_component_class(name)) is not None
    ]
    return frozenset(option for plan in plans for option in (*plan.field_types, *plan.ignored))
