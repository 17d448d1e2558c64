"""`singer_sdk` in this process is `tap_core`: for installed plugins that import the former.

Rules of the room: a plugin's files are not touched. Every import of ``singer_sdk.x``
gives the very module ``tap_core.x``, whether or not singer_sdk is installed beside it, so
that a class is the same class under both names. What tap_core does not have is an
`ImportError` that names it; it is never looked for in an installed singer_sdk, because
half of each would be neither.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

__all__ = ["SINGER_SDK", "install_import_alias"]

SINGER_SDK = "singer_sdk"
_OURS = "tap_core"


class _Alias(MetaPathFinder, Loader):
    """Finds and loads modules of `ALIAS`."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002  (import's own signature)
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Claim every module below the alias; refuse those that tap_core lacks.

        Raises:
            ModuleNotFoundError: there is no such module here.
        """
        if fullname.partition(".")[0] != SINGER_SDK:
            return None
        found = find_spec(_ours(fullname))
        if found is None:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=_ours(fullname))
        is_package = found.submodule_search_locations is not None
        return ModuleSpec(fullname, self, is_package=is_package)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return our module itself; what the import system writes into it is put right after."""
        module = import_module(_ours(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own words back: it was run under its own name."""
        alias = module.__spec__
        if alias is not None and alias.loader is self:
            module.__spec__ = alias.loader_state


def install_import_alias() -> None:
    """Let ``singer_sdk`` stand for ``tap_core`` from now on.

    Raises:
        RuntimeError: the real singer_sdk was imported before.
    """
    if any(isinstance(finder, _Alias) for finder in sys.meta_path):
        return
    if SINGER_SDK in sys.modules:
        raise RuntimeError(f"{SINGER_SDK} is imported already: install the alias first.")
    sys.meta_path.insert(0, _Alias())


def _ours(name: str) -> str:
    return _OURS + name.removeprefix(SINGER_SDK)
