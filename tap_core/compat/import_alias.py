"""Import alias `singer_sdk` for `tap_core`, to run plugins written for singer_sdk unchanged.

An import of ``singer_sdk.x`` returns the module ``tap_core.x`` itself, so that classes are
identical under both names. An installed singer_sdk is never used, because a mixture of both
packages would not work: importing a module that tap_core lacks raises `ImportError`.
`search_working_directory` lets Python find a plugin's class in the working directory.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

__all__ = ["SINGER_SDK", "install_import_alias", "search_working_directory"]

SINGER_SDK = "singer_sdk"
_OURS = "tap_core"
_FORMER_NAMES = {"_singerlib": "singerlib"}
"""Names of packages in older releases of singer_sdk, with their names in singer_sdk 0.54."""


class _Alias(MetaPathFinder, Loader):
    """Import hook that resolves ``singer_sdk`` and its submodules to modules of tap_core."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002  (import's own signature)
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return the import spec for ``singer_sdk`` or a submodule, or None for other modules.

        Raises:
            ModuleNotFoundError: tap_core has no such module.
        """
        if fullname.partition(".")[0] != SINGER_SDK:
            return None
        real_spec = find_spec(_get_real_name(fullname))
        if real_spec is None:
            raise ModuleNotFoundError(
                f"No module named {fullname!r}", name=_get_real_name(fullname)
            )
        is_package = real_spec.submodule_search_locations is not None
        return ModuleSpec(fullname, self, is_package=is_package)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import and return the module of tap_core that replaces a module of singer_sdk."""
        module = import_module(_get_real_name(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's ``__spec__``, which Python has replaced by the spec of the alias.

        The module's code is not executed again.
        """
        alias = module.__spec__
        if alias is not None and alias.loader is self:
            module.__spec__ = alias.loader_state


def install_import_alias() -> None:
    """Make ``singer_sdk`` an alias of ``tap_core`` until the process ends.

    Raises:
        RuntimeError: The real singer_sdk was imported before.
    """
    if any(isinstance(finder, _Alias) for finder in sys.meta_path):
        return
    if SINGER_SDK in sys.modules:
        raise RuntimeError(f"{SINGER_SDK} is imported already: install the alias first.")
    sys.meta_path.insert(0, _Alias())


def search_working_directory() -> None:
    """Let Python import modules of the working directory that are not found anywhere else.

    As the last entry of `sys.path`, the directory cannot replace an installed library.
    """
    if "" not in sys.path:
        sys.path.append("")


def _get_real_name(name: str) -> str:
    """Return the name of the module in tap_core: ``singer_sdk.sinks`` -> ``tap_core.sinks``."""
    _, *path = name.split(".")
    if path:
        path[0] = _FORMER_NAMES.get(path[0], path[0])
    return ".".join((_OURS, *path))
