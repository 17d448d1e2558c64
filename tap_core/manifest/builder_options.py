"""Options that a component does not have: which are faults, and which cannot matter.

Rules of the room: airbyte-cdk ignores all of them, and published manifests have many: words for
people, and options or parameters that slipped into a component they do not belong to. Those are
told as warnings; a word that nothing in the manifest knows is a fault.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, Final

from tap_core.manifest.document import MappingNode
from tap_core.manifest.registry import MODULES, get_component_class
from tap_core.manifest.type_hints import get_component_plan

__all__ = ["NOT_SUPPORTED", "unknown_options"]

NOT_SUPPORTED: Final = frozenset({"truncated_list_retriever"})
"""What Airbyte has, and no manifest can have here."""

_NEAR: Final = 0.75
"""How like an option a word is that was meant to be it: ``sise`` and ``size`` are."""
_COMMENTS: Final = frozenset({"$comment", "comment", "description", "title"})
_OUTDATED: Final = frozenset({"request_options_provider", "selector", "stream_slicer"})
"""What older versions of Airbyte's components had, and none has now."""
_PUBLISHED: Final[Mapping[str, frozenset[str]]] = {
    "CursorPagination": frozenset({"extractorPath"}),
    "LegacyToPerPartitionStateMigration": frozenset({"Type"}),
    "SubstreamPartitionRouter": frozenset({"stream_name"}),
}
"""What published manifests say of a component, and no version of Airbyte's has ever read."""


def unknown_options(
    node: MappingNode, known: Collection[Any], parameters: Collection[Any]
) -> list[tuple[Any, bool]]:
    """Return the options of a component that it does not have, each with whether it is a fault.

    What is known elsewhere, to another component or in ``parameters``, only slipped in here; so
    has what stands beside it, unless it looks like an option that there is.
    """
    unknown = [one for one in node if one not in known and one not in _COMMENTS]
    if not unknown:
        return []
    published = _PUBLISHED.get(str(node.get("type")), frozenset())
    elsewhere = _everywhere() | _OUTDATED | published | set(parameters)
    strange = [one for one in unknown if one not in elsewhere or one in NOT_SUPPORTED]
    if len(strange) < len(unknown):
        strange = _slips_of_the_pen(strange, known)
    return [(one, one in strange) for one in unknown]


def _slips_of_the_pen(words: Iterable[Any], known: Collection[Any]) -> list[Any]:
    texts = [*NOT_SUPPORTED, *map(str, known)]
    return [one for one in words if get_close_matches(str(one), texts, n=1, cutoff=_NEAR)]


@cache
def _everywhere() -> frozenset[str]:
    """Return the options of all components."""
    plans = [
        get_component_plan(cls)
        for name in MODULES
        if (cls := get_component_class(name)) is not None
    ]
    return frozenset(option for plan in plans for option in (*plan.shapes, *plan.ignored))
