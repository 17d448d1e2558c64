"""Import of the Python files next to an Airbyte manifest, such as ``components.py``.

- The files of a folder form a package with a unique name, so that several connectors in one process
  do not share modules.
- Their imports from ``airbyte_cdk`` resolve to `tap_core.manifest.cdk_compat`, even if airbyte-cdk
  is installed. Imports in all other code of the process are unaffected.
- Imports of the connector's own package, such as ``source_x.utils``, are searched in the folder.
- The ``__init__.py`` of a folder is run only if a name that is imported from the package is not
  that of a file in the folder.
"""

from __future__ import annotations

import builtins
import hashlib
import logging
import pkgutil
import re
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from tap_core.manifest.cdk_compat import requests_cache_stub
from tap_core.manifest.cdk_compat.exports import resolve_export
from tap_core.manifest.cdk_compat.schema_loaders import CdkJsonFileSchemaLoader
from tap_core.manifest.cdk_compat.unsupported import find_unsupported_base, unsupported_class
from tap_core.manifest.errors import ManifestError

__all__ = ["load_class"]

_CDK: Final = "airbyte_cdk"
_RESPONSE_CACHE: Final = "requests_cache"
_PREFIX: Final = "components_of_"
_CUSTOM_ROOTS: Final = ("source_declarative_manifest", "components")
"""Top-level package names by which connectors may import their own files."""
_NO_PART_OF_A_NAME: Final = re.compile(r"[^\w.-]")
"""Character that no qualified class name has. ``/`` would lead out of the manifest's folder."""
_BUILTIN_IMPORT: Final = builtins.__import__
_lock: Final = threading.RLock()
_log: Final = logging.getLogger(__name__)


def load_class(class_name: str, folder: Path) -> type:
    """Import and return the Python class that a manifest names, such as ``source_x.components.Y``.

    Args:
        class_name: The qualified class name.
        folder: The folder of the manifest, which contains the connector's Python files.

    Raises:
        ManifestError: The name is not a qualified class name, the class does not exist, or
            importing its file failed; the message contains file and line.
    """
    if _NO_PART_OF_A_NAME.search(class_name):
        raise ManifestError(
            f"class_name is '{class_name}': it must be a module and a class, such as"
            " 'source_declarative_manifest.components.MyClass'. A path is not possible."
        )
    module_name, _, name = class_name.rpartition(".")
    root, *rest = module_name.split(".")
    steps = ["components", *rest] if root in {"", "components"} else rest
    package = _register_package(folder.resolve(), root)
    with _lock:
        if not steps and _is_defined_in_init(package, name, folder):
            module = sys.modules[package]
        else:
            submodule = ".".join(steps or ["components"])
            module = _import_file(f"{package}.{submodule}", class_name, folder)
    cls = getattr(module, name, None)
    if not isinstance(cls, type):
        raise ManifestError(f"There is no class '{name}' in {_get_file(module)}.")
    if (problem := find_unsupported_base(cls)) is not None:
        raise ManifestError(f"{_get_file(module)}, class {name}: {problem}")
    return cls


def _is_defined_in_init(package: str, name: str, folder: Path) -> bool:
    """Run a connector's ``__init__.py``; return True if its package then defines ``name``.

    Raises:
        ManifestError: The file failed; the message contains file and line.
    """
    try:
        _run_init(sys.modules[package])
    except Exception as error:
        raise _make_error(error, folder) from error
    return hasattr(sys.modules[package], name)


def _import_file(name: str, class_name: str, folder: Path) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and name.startswith(error.name):
            raise ManifestError(
                f"class_name is '{class_name}', and there is no such Python file in {folder}:"
                " put the connector's components.py next to the manifest."
            ) from None
        raise _make_error(error, folder) from error
    except Exception as error:
        raise _make_error(error, folder) from error


def _make_error(error: Exception, folder: Path) -> ManifestError:
    """Return a ManifestError for a failed import of a connector's file, with the file and line."""
    root = str(folder.resolve())
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if root in frame.filename
    ]
    location = f"{frames[-1].filename}, line {frames[-1].lineno}: " if frames else ""
    if isinstance(error, SyntaxError) and error.filename:
        location = f"{error.filename}, line {error.lineno}: "
    message = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        if error.name.startswith(_PREFIX):
            file = error.name.partition(".")[2].replace(".", "/") or "__init__"
            message = f"there is no file {file}.py next to the manifest."
        else:
            message = f"the package '{error.name.partition('.')[0]}' is not installed: install it."
    return ManifestError(f"{location}{message}")


def _get_file(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or module.__name__


# One package per folder


def _register_package(folder: Path, root: str) -> str:
    """Register a package for a connector's folder in ``sys.modules``; return its unique name.

    ``root`` is the package name in the connector's own imports, such as ``source_x``.
    """
    digest = hashlib.sha256(f"{folder}\0{root}".encode()).hexdigest()[:16]
    name = f"{_PREFIX}{digest}"
    with _lock:
        if name not in sys.modules:
            if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
                sys.meta_path.insert(0, _Finder())
            module = ModuleType(name)
            module.__package__ = name
            module.__path__ = [str(folder / root), str(folder)] if root else [str(folder)]
            module.__dict__["ROOTS"] = (root, *_CUSTOM_ROOTS)
            module.__dict__["FOLDER"] = folder
            sys.modules[name] = module
    return name


def _run_init(package: ModuleType) -> None:
    """Run the ``__init__.py`` of a connector's package, unless there is none or it has been run.

    In a circular import, the files that it imports see a partially initialized package.
    """
    if package.__dict__.get("IS_RUN"):
        return
    files = [Path(folder, "__init__.py") for folder in package.__path__]
    if (file := next((path for path in files if path.is_file()), None)) is None:
        return
    package.__dict__["IS_RUN"] = True
    package.__file__ = str(file)
    try:
        _Loader(package.__name__, str(file)).exec_module(package)
    except BaseException:
        package.__dict__["IS_RUN"] = False
        raise


class _Finder(MetaPathFinder):
    """Import finder (``sys.meta_path``) for the Python files in connectors' folders."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return the import spec of a connector's module; None for any other module."""
        if not fullname.startswith(_PREFIX):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(fullname, spec.origin)
        elif spec is not None and spec.origin:
            _log_custom_code(Path(spec.origin))
        return spec


def _log_custom_code(file: Path) -> None:
    """Log the path and the SHA-256 of a connector's Python file, before the file is executed."""
    digest = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "unknown"
    _log.info("The manifest runs custom Python code: %s (SHA-256 %s).", file, digest)


class _Loader(SourceFileLoader):
    """Module loader for a connector's Python file, whose imports are resolved by `_Importer`.

    For example, imports from ``airbyte_cdk`` return this SDK's substitutes.
    """

    def exec_module(self, module: ModuleType) -> None:
        """Execute a connector's Python file with `_Importer.import_names` as its ``__import__``."""
        _log_custom_code(Path(self.path))
        package = sys.modules[module.__name__.partition(".")[0]]
        custom_builtins = {**builtins.__dict__, "__import__": _Importer(package).import_names}
        module.__dict__["__builtins__"] = custom_builtins
        super().exec_module(module)


class _Importer:
    """Replacement for the builtin ``__import__`` in the files of one connector.

    It redirects imports of airbyte-cdk to this package, and imports of the connector's own package
    to the connector's folder.
    """

    def __init__(self, package: ModuleType) -> None:
        self._package = package.__name__
        self._roots: tuple[str, ...] = package.__dict__["ROOTS"]
        self._folder: Path = package.__dict__["FOLDER"]

    def import_names(
        self,
        name: str,
        scope: Mapping[str, Any] | None = None,
        local: Mapping[str, Any] | None = None,
        names: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Import a module for a connector's file and return it, like the builtin ``__import__``.

        The arguments are those of ``__import__``: ``scope`` and ``local`` are its ``globals`` and
        ``locals``, and ``names`` is its ``fromlist``.
        """
        root = name.partition(".")[0]
        if level == 0 and root == _CDK:
            return self._make_cdk_module(name, names or ())
        if level == 0 and name == pkgutil.__name__:
            return self._make_pkgutil()
        if level == 0 and root == _RESPONSE_CACHE and find_spec(root) is None:
            return requests_cache_stub
        if level == 0 and root in self._roots and self._is_in_folder(name):
            inner = name if root == "components" else name.partition(".")[2]
            module = import_module(f"{self._package}.{inner}" if inner else self._package)
            if not inner and any(self._is_missing(imported) for imported in names or ()):
                _run_init(module)
            if names:
                return _BUILTIN_IMPORT(module.__name__, scope, local, names, 0)
            # `import a.b` returns the module of `a`.
            return sys.modules[f"{self._package}.{root}" if root == "components" else self._package]
        return _BUILTIN_IMPORT(name, scope, local, names or (), level)

    def _make_pkgutil(self) -> ModuleType:
        """Return a copy of pkgutil whose ``get_data`` reads files in the connector's folder."""
        module = ModuleType(pkgutil.__name__)
        module.__dict__.update(vars(pkgutil), get_data=self._read_data)
        return module

    def _read_data(self, package: str, resource: str) -> bytes | None:
        """Return the content of the connector's data file ``resource``; None if it does not exist.

        This replaces `pkgutil.get_data`, which remains in use for other packages.
        """
        root, *steps = package.split(".")
        if root not in self._roots:
            return pkgutil.get_data(package, resource)
        file = self._folder.joinpath(*steps, resource)
        return file.read_bytes() if file.is_file() else None

    def _is_missing(self, name: str) -> bool:
        """Return True if the connector's package has neither an attribute nor a submodule ``name``.

        If True, the caller runs the package's ``__init__.py``, which may define the name.
        """
        has_attribute = hasattr(sys.modules[self._package], name)
        return not has_attribute and find_spec(f"{self._package}.{name}") is None

    def _is_in_folder(self, name: str) -> bool:
        """Return True if an absolute import of ``name`` is searched in the connector's folder.

        The name ``components`` is searched there only if the folder contains ``components.py``.
        """
        return name.partition(".")[0] != "components" or (self._folder / "components.py").exists()

    def _make_cdk_module(self, name: str, names: Sequence[str]) -> ModuleType:
        """Return a module with this package's substitute for each airbyte-cdk name in ``names``.

        An unsupported name becomes a placeholder class, which fails when it is used.

        Raises:
            ImportError: The import lists no names, as in ``import airbyte_cdk``.
        """
        if not names:
            raise ImportError(
                f"'import {name}' is not supported: import the names that are used,"
                f" 'from {name} import …'."
            )
        module = ModuleType(name)
        for imported in names:
            export = resolve_export(imported)
            if export is None:
                export = unsupported_class(imported, name)
            elif export is CdkJsonFileSchemaLoader:
                export = export.within(self._folder)
            module.__dict__[imported] = export
        return module
