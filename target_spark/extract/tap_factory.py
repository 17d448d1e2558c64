"""What a tap is made of where it is needed: on the driver, and again in each of Spark's workers.

Rules of the room: a source is a name, settings and a catalog, so that it can be pickled; the tap
itself, with its sessions and locks, never travels. A worker makes it once and keeps it for the
parts that follow. Settings may hold secrets: a source shows none of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tap_core.compat import import_alias
from tap_core.exceptions import ConfigurationError
from tap_core.redaction import make_redactor
from target_spark.extract.rate_limit_server import RateLimitBackend, use_job_rate_limit

if TYPE_CHECKING:
    from tap_core.tap_base import Tap

__all__ = ["TapSpec", "drop_cached_tap", "get_redactor", "get_tap", "import_tap_class"]


@dataclass(frozen=True, slots=True, repr=False)
class TapSpec:
    """A tap by the name of its class (``tap_x.tap:TapX``), with its settings and its catalog.

    ``id`` is new for each run: taps of one run are kept for it, and no longer. ``permits`` says
    where the job's requests are counted; None: each process counts its own.
    """

    id: str
    tap: str
    config: Mapping[str, Any]
    catalog: Mapping[str, Any] | None = None
    permits: RateLimitBackend | None = None

    def new(self, state: Mapping[str, Any] | None = None) -> Tap:
        """Make the tap.

        Raises:
            ConfigurationError: there is no such class.
            ConfigValidationError: its settings do not fit.
        """
        tap: Tap = import_tap_class(self.tap)(
            config=dict(self.config),
            catalog=None if self.catalog is None else dict(self.catalog),
            state=dict(state or {}),
        )
        use_job_rate_limit(tap, self.permits)
        return tap


def import_tap_class(name: str) -> type[Tap]:
    """Return the class that a name such as ``tap_x.tap:TapX``, or a manifest's path, stands for.

    Taps that import singer_sdk are taken as they are.

    Raises:
        ConfigurationError: there is no such class, or it is no tap.
    """
    from tap_core.tap_base import Tap

    if name.endswith((".yaml", ".yml")):
        from tap_core.manifest.tap import make_tap_class as declared

        return declared(Path(name))
    import_alias.install_import_alias()
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, "")  # a tap of the working directory, as `python -m` would find it
    module, _, attribute = name.partition(":")
    try:
        found: Any = import_module(module)
    except ImportError as error:
        raise ConfigurationError(
            f"The tap {name} cannot be imported: {error}. Name its class as tap_x.tap:TapX, and"
            " install it where Spark's workers run too."
        ) from error
    for part in filter(None, attribute.split(".")):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and issubclass(found, Tap)):
        raise ConfigurationError(f"{name} is no tap: name its class, as in tap_x.tap:TapX.")
    return found


@lru_cache(maxsize=1)
def _kept(key: _Key) -> Tap:
    return key.source.new()


@dataclass(frozen=True, slots=True, eq=False)
class _Key:
    """A source that is compared by its run."""

    source: TapSpec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.source.id == self.source.id

    def __hash__(self) -> int:
        return hash(self.source.id)


def get_tap(source: TapSpec) -> Tap:
    """Return this process's tap of a source, made by whoever comes first."""
    return _kept(_Key(source))


def get_redactor(source: TapSpec) -> Callable[[str], str]:
    """Return a function that takes the secrets of a source's settings out of a text."""
    try:
        schema = import_tap_class(source.tap)._full_schema()  # noqa: SLF001
    except ConfigurationError:  # the name alone says then what is secret
        schema = {}
    return make_redactor(source.config, schema)


def drop_cached_tap() -> None:
    """Let the next part have a tap of its own: what failed may have left something behind."""
    _kept.cache_clear()
