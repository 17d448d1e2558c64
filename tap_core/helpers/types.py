"""Compatibility module for plugins that import ``singer_sdk.helpers.types``.

It only re-exports names of `tap_core.types`, `tap_core.http.request` and `tap_core.http`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tap_core.types import Context, Record, StrPath, TapState

if TYPE_CHECKING:
    from tap_core.http.request import Auth, RequestFunc

__all__ = ["Auth", "Context", "Record", "RequestFunc", "StrPath", "TapState"]


def __getattr__(name: str) -> Any:
    """Import ``Auth`` or ``RequestFunc`` on first access, because their modules import slowly."""
    if name in {"Auth", "RequestFunc"}:
        from tap_core.http import request

        return getattr(request, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
