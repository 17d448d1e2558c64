"""Creation of a tap on the driver and in Spark workers.

The driver sends the class name, settings and catalog of a tap to the workers, because a tap with
its HTTP sessions and locks cannot be pickled. A worker process creates the tap once and caches it
for later partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tap_core.compat import import_alias
from tap_core.exceptions import ConfigurationError
from tap_core.http.rate_limit import use_shared_counters
from tap_core.redaction import make_redactor
from tap_core.state.backfill_range import ReadRange
from tap_core.sync.backfill import apply_range
from target_spark.extract.rate_limit_server import RateLimitAddress

if TYPE_CHECKING:
    from tap_core.tap_base import Tap

__all__ = ["TapSpec", "describe_error", "drop_cached_tap", "get_tap", "import_tap_class"]


@dataclass(frozen=True, slots=True, repr=False)
class TapSpec:
    """Class name, settings and catalog of a tap, for creating the tap in a Spark worker.

    The object can be pickled. `repr` does not show the settings, as they may contain secrets. Two
    objects are equal if they have the same run id, so that `get_tap` can use them as cache keys.

    Attributes:
        id: A unique id of the run, so that a worker's cached tap is not used in another run.
        tap: The name of the tap's class, such as ``tap_x.tap:TapX``, or the path of a manifest.
        config: The settings.
        catalog: The catalog; None to use the catalog that the tap discovers.
        permits: The address of the job's rate limit server; None to apply the rate limits to each
            process separately.
        read_range: The range of a backfill; None to continue from the state.
    """

    id: str
    tap: str = field(compare=False)
    config: Mapping[str, Any] = field(compare=False)
    catalog: Mapping[str, Any] | None = field(default=None, compare=False)
    permits: RateLimitAddress | None = field(default=None, compare=False)
    read_range: ReadRange | None = field(default=None, compare=False)

    def new(self, state: Mapping[str, Any] | None = None) -> Tap:
        """Create the tap that this object describes, with the job's rate limits and backfill range.

        Args:
            state: The Singer state to load into the tap; None for a full sync.

        Raises:
            ConfigurationError: The tap's class cannot be imported.
            ConfigValidationError: The settings are invalid.
        """
        tap: Tap = import_tap_class(self.tap)(
            config=dict(self.config),
            catalog=None if self.catalog is None else dict(self.catalog),
            state=dict(state or {}),
        )
        if self.permits is not None:
            use_shared_counters(tap, self.permits.counters())
        if self.read_range is not None:
            apply_range(tap, self.read_range)
        return tap


def import_tap_class(name: str) -> type[Tap]:
    """Import and return a tap's class. Taps that import singer_sdk are supported too.

    Args:
        name: The name of the class, such as ``tap_x.tap:TapX``, or the path of a YAML manifest.

    Raises:
        ConfigurationError: The class cannot be imported, or is not a tap.
    """
    from tap_core.tap_base import Tap

    if name.endswith((".yaml", ".yml")):
        from tap_core.manifest.tap import make_tap_class

        return make_tap_class(Path(name))
    import_alias.install_import_alias()
    import_alias.search_working_directory()
    module, _, attribute = name.partition(":")
    try:
        imported: Any = import_module(module)
    except (ImportError, ValueError) as error:
        raise ConfigurationError(
            f"The tap {name} cannot be imported: {error}. Pass its class as tap_x.tap:TapX, and"
            " install it on Spark's workers too."
        ) from error
    members = vars(imported).items()
    for part in filter(None, attribute.split(".")):
        imported = getattr(imported, part, None)
    if not _is_subclass(imported, Tap):
        taps = [f"{module}:{key}" for key, value in members if _is_subclass(value, Tap)]
        hint = f" This module has {', '.join(taps)}." if taps else ""
        raise ConfigurationError(
            f"{name} is not a tap: pass its class, as in tap_x.tap:TapX.{hint}"
        )
    tap_class: type[Tap] = imported
    return tap_class


def _is_subclass(value: object, base: type) -> bool:
    return isinstance(value, type) and issubclass(value, base) and value is not base


@lru_cache(maxsize=1)
def get_tap(source: TapSpec) -> Tap:
    """Return the tap that ``source`` describes, from the cache of this process if possible.

    A worker process thus creates the tap only once for all partitions of a run.
    """
    return source.new()


def describe_error(source: TapSpec, error: BaseException) -> str:
    """Return the class name and text of an error; redact the secrets of the tap's settings."""
    try:
        schema = import_tap_class(source.tap)._full_schema()  # noqa: SLF001
    except ConfigurationError:  # without a schema, names alone identify secrets
        schema = {}
    return make_redactor(source.config, schema)(f"{type(error).__name__}: {error}")


def drop_cached_tap() -> None:
    """Remove the tap from the cache of this process, so that `get_tap` creates a new tap.

    This is necessary after an error, because the tap may be in an undefined state. It is also
    necessary in a forked process, which must not use the connections of its parent.
    """
    get_tap.cache_clear()
