"""Base class of taps, targets and mappers: name, settings, version and command line.

Public names are those of singer_sdk's ``PluginBase``, so that plugins migrate by changing an
import. The passed configuration and the class's ``config_jsonschema`` are never modified; the SDK
adds settings to copies.
"""

from __future__ import annotations

import abc
import inspect
import logging
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePath
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

from tap_core import about, metrics
from tap_core.capabilities import (
    FLATTENING_CONFIG,
    STREAM_MAPS_CONFIG,
    CapabilitiesEnum,
    PluginCapabilities,
)
from tap_core.compat.classproperty import classproperty
from tap_core.compat.slow_imports import without_collections
from tap_core.config.loading import (
    EnvironmentConfig,
    check_nesting,
    copy_config_schema,
    deep_copy_config,
    fill_defaults,
    merge_missing_config_jsonschema,
    parse_environment_config,
    read_config_files,
    read_environment,
)
from tap_core.config.validation import find_null_bytes, suggest_misspelled_settings, validate_config
from tap_core.exceptions import (
    ConfigValidationError,
    MapperNotInitialized,
    SingerSDKDeprecationWarning,
)
from tap_core.io.termination_handlers import handle_termination, is_repetition
from tap_core.logging import plugin_log_level, setup_console_logging, warn_about_log_level
from tap_core.redaction import collect_secrets, register_secrets
from tap_core.types import JsonSchema

if TYPE_CHECKING:
    from tap_core.mapper.plugin_mapper import PluginMapper

__all__ = [
    "SDK_PACKAGE_NAME",
    "CliCommand",
    "ConfigUpdateCallback",
    "EntryPoint",
    "PluginBase",
    "plugin_cli",
]

SDK_PACKAGE_NAME = "tap-core-sdk"
"""Name of the distribution that contains the SDK, to look up the SDK's version."""

_NO_VERSION = "[could not be detected]"

_Value = TypeVar("_Value")

ConfigUpdateCallback: TypeAlias = Callable[[Callable[[Mapping[str, Any]], dict[str, Any]]], None]
"""Callback for new OAuth tokens. Its argument is a function from the current settings to new
settings, which contain the newest tokens."""


class CliCommand(Protocol):
    """Interface of a command that runs a plugin; commands of click satisfy it too."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        **extra: Any,
    ) -> Any:
        """Run the command with the arguments ``args``, by default ``sys.argv[1:]``."""


class EntryPoint:
    """Callable that runs a plugin class from the command line, for console scripts.

    Console scripts call it without arguments, so that it uses ``sys.argv``. It can also be called
    with an argument list, or through :meth:`main`, as click's test runner does. Other attributes
    (``params``, ``help``) are read from the Singer command.
    """

    def __init__(self, plugin: type[PluginBase]) -> None:
        self._plugin = plugin
        self.name: str = plugin.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the plugin with the arguments of :meth:`main`."""
        return self.main(*args, **kwargs)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        **extra: Any,
    ) -> Any:
        """Configure logging, and run the command that the arguments select.

        ``args`` are the command-line arguments, by default those in ``sys.argv``.
        """
        argv = list(sys.argv[1:] if args is None else args)
        setup_console_logging(plugin_log_level(self.name))
        with without_collections():  # imports the modules of a protocol
            command = self._plugin.get_command(argv)
        return command.main(args=argv, prog_name=prog_name, **extra)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._plugin.get_singer_command(), name)


class plugin_cli:  # noqa: N801  singer_sdk's name
    """Descriptor of the attribute ``cli``: ``TapX.cli`` runs ``TapX`` from the command line."""

    def __get__(self, instance: object, owner: type[PluginBase]) -> EntryPoint:
        return EntryPoint(owner)


class PluginBase(abc.ABC):
    """Base class of taps, targets and mappers.

    Subclasses define these attributes:

    - ``name`` (str, required): name of the executable, such as ``tap-x``. It is also the prefix of
      environment variables (``TAP_X_``) and the name of the logger.
    - ``package_name`` (str or None, default None): name of the distribution, if it differs.
    - ``config_jsonschema`` (dict, default without properties): JSON Schema of the settings; used
      for validation, defaults, ``--about`` and environment variables.

    Example:
        name = "tap-x"
        config_jsonschema = th.PropertiesList(
            th.Property("token", th.StringType, required=True, secret=True),
            th.Property("start_date", th.DateTimeType, default="2020-01-01T00:00:00Z"),
        ).to_dict()
    """

    name: str
    package_name: str | None = None
    config_jsonschema: ClassVar[JsonSchema] = {"properties": {}}
    capabilities: ClassVar[list[CapabilitiesEnum]] = [
        PluginCapabilities.ABOUT,
        PluginCapabilities.STRUCTURED_LOGGING,
    ]

    _mapper: PluginMapper | None = None
    _mapper_is_due = False
    """True if the first access to `mapper` must create the stream maps."""
    _received_signals: tuple[int, ...] = ()

    config_file: Path | None = None
    """File with all settings, to which refresh tokens that the server replaced are written back.
    None if settings came from other sources."""

    config_args: tuple[str, ...] = ()
    """Values of ``--config`` that the settings came from, for command lines in messages."""

    config_listener: ConfigUpdateCallback | None = None
    """Callback for a replaced refresh token, called in addition to updating `config_file`."""

    documentation_url: str | None = None
    """URL of the plugin's documentation; None uses the distribution's metadata."""

    changelog_url: str | None = None
    """URL of the plugin's changelog; None uses the distribution's metadata."""

    cli: plugin_cli = plugin_cli()
    """Entry point for the console script ``tap_x.tap:TapX.cli``."""

    def __init__(
        self,
        *,
        config: Mapping[str, Any] | PurePath | str | Sequence[PurePath | str] | None = None,
        parse_env_config: bool = False,
        validate_config: bool = True,
    ) -> None:
        """Load and validate the settings, and install signal handlers.

        Args:
            config: Settings, or (deprecated) paths of settings files.
            parse_env_config: True to read settings from environment variables too.
            validate_config: True to raise an error for invalid settings.

        Raises:
            ConfigValidationError: The settings are invalid; ``errors`` has one message per fault.
            TypeError: The configuration is neither a mapping nor a path.
        """
        self._config: dict[str, Any] = {}
        self._config.update(_load_config(config))
        environment = EnvironmentConfig({}, {})
        if parse_env_config:
            environment = read_environment(self._full_schema(), self._env_var_prefix)
        self._config.update(environment.values)
        check_nesting(self._config)
        self._config = deep_copy_config(self._config)
        self._env_faults = environment.faults
        register_secrets(self, collect_secrets(self._config, self._full_schema()))
        self._misspelled = list(suggest_misspelled_settings(self._config, self._full_schema()))
        self._fill_defaults()

        self.metrics_logger: logging.Logger = metrics.get_metrics_logger()
        self.metrics_logger.setLevel(plugin_log_level(self.name))
        # If validate_config is False, only a plugin's override of _validate_config is called.
        overrides_check = type(self)._validate_config is not PluginBase._validate_config  # noqa: SLF001
        if validate_config or overrides_check:
            self._validate_config(raise_errors=validate_config)
        else:
            for fault in self._env_faults.values():
                self.logger.warning("%s; the variable is ignored", fault)
        self.__initialized_at = int(time.time() * 1000)
        self._setup_signal_handlers()

    # Settings

    def _fill_defaults(self) -> None:
        """Set missing settings to the defaults in the plugin's JSON Schema."""
        fill_defaults(self._config, self._full_schema())

    @property
    def config(self) -> Mapping[str, Any]:
        """Settings of the plugin, as a read-only mapping."""
        return MappingProxyType(self._config)

    @classmethod
    def append_builtin_config(cls, config_jsonschema: JsonSchema) -> None:
        """Add the built-in settings of the plugin's capabilities to a config schema, in place.

        The SDK passes a copy of the plugin's schema. Override this method to add more settings.
        """
        for capability, settings in (
            (PluginCapabilities.STREAM_MAPS, STREAM_MAPS_CONFIG),
            (PluginCapabilities.FLATTENING, FLATTENING_CONFIG),
        ):
            if capability in cls.capabilities:
                merge_missing_config_jsonschema(settings, config_jsonschema)

    @classmethod
    def _full_schema(cls) -> JsonSchema:
        schema = copy_config_schema(cls)
        cls.append_builtin_config(schema)
        return schema

    def _validate_config(self, *, raise_errors: bool = True) -> list[str]:
        """Validate the settings, log warnings, and return a message for each error.

        Raises:
            ConfigValidationError: There are errors and ``raise_errors`` is True.
        """
        schema = self._full_schema()
        errors = [
            *self._env_faults.values(),
            *validate_config(self._config, schema, skip=self._env_faults),
            *find_null_bytes(self._config),
            *self._faults_beyond_schema(),
        ]
        warn_about_log_level(self.name)
        for misspelled, known in self._misspelled:
            self.logger.warning("Setting '%s' is not known. Did you mean '%s'?", misspelled, known)
        if errors and raise_errors:
            summary = f"Config validation failed: {'; '.join(errors)}"
            raise ConfigValidationError(summary, errors=errors, schema=schema)
        if errors:
            self.logger.warning("Config validation failed: %s", "; ".join(errors))
        return errors

    def _faults_beyond_schema(self) -> list[str]:
        """Return a message for each error in the settings that a JSON Schema cannot express.

        The default is an empty list; subclasses override it.
        """
        return []

    @classproperty
    def _env_var_prefix(cls) -> str:  # noqa: N805
        name: str = cls.name
        return f"{name.upper().replace('-', '_')}_"

    @classproperty
    def _env_var_config(cls) -> dict[str, Any]:  # noqa: N805
        """Settings read from environment variables.

        Raises:
            ConfigValidationError: A variable has a value of the wrong type for its setting.
        """
        return parse_environment_config(cls._full_schema(), cls._env_var_prefix)

    # Identity and version

    if TYPE_CHECKING:
        logger: logging.Logger  # a Protocol with a property `logger` rejects a classproperty
    else:

        @classproperty
        def logger(cls) -> logging.Logger:  # noqa: N805
            """Logger of the plugin, with the plugin's name, such as ``tap-x``."""
            return logging.getLogger(cls.name)

    @property
    def initialized_at(self) -> int:
        """Time when this plugin object was created, in milliseconds since 1970."""
        return self.__initialized_at

    @classmethod
    def get_plugin_version(cls) -> str:
        """Return the version of the plugin's package, or ``[could not be detected]``."""
        return _version(cls.package_name or cls.name)

    @classmethod
    def get_sdk_version(cls) -> str:
        """Return the version of this SDK, or ``[could not be detected]``."""
        return _version(SDK_PACKAGE_NAME)

    @classmethod
    def get_supported_python_versions(cls) -> list[str] | None:
        """Return the Python versions that the plugin supports, or None if it is not installed."""
        return cls._read_metadata(about.python_versions)

    @classmethod
    def get_documentation_url(cls) -> str | None:
        """Return the plugin's documentation URL from its class or its package, or None."""
        return cls.documentation_url or cls._read_metadata(about.documentation_url)

    @classmethod
    def get_changelog_url(cls) -> str | None:
        """Return the plugin's changelog URL from its class or its package, or None."""
        return cls.changelog_url or cls._read_metadata(about.changelog_url)

    @classmethod
    def _read_metadata(cls, read: Callable[[Any], _Value]) -> _Value | None:
        """Return the value that ``read`` finds in the metadata of the plugin's package, or None."""
        from importlib import metadata

        try:
            return read(metadata.metadata(cls.package_name or cls.name))
        except metadata.PackageNotFoundError:
            return None

    @classproperty
    def plugin_version(cls) -> str:  # noqa: N805
        """Version of the plugin's package, such as ``1.2.0``."""
        return cls.get_plugin_version()

    @classproperty
    def sdk_version(cls) -> str:  # noqa: N805
        """Version of this SDK, such as ``3.4.0``."""
        return cls.get_sdk_version()

    @classmethod
    def print_version(cls, print_fn: Callable[[Any], None] = print) -> None:
        """Print the versions of the plugin and the SDK: ``tap-x v1.2.0, tap-core v3.4.0``."""
        print_fn(f"{cls.name} v{cls.plugin_version}, tap-core v{cls.sdk_version}")

    @classmethod
    def print_about(cls, output_format: str | None = None) -> None:
        """Print the plugin's description in a format of ``--about``, by default as text."""
        formatter = about.AboutFormatter.get_formatter(output_format or "text")
        print(formatter.format_about(cls._get_about_info()))  # noqa: T201  its purpose

    @classmethod
    def _get_about_info(cls) -> about.AboutInfo:
        return about.AboutInfo(
            name=cls.name,
            description=inspect.cleandoc(cls.__doc__ or "") or None,
            version=cls.get_plugin_version(),
            sdk_version=cls.get_sdk_version(),
            supported_python_versions=cls.get_supported_python_versions(),
            capabilities=list(cls.capabilities),
            settings=cls._full_schema(),
            env_var_prefix=cls._env_var_prefix,
            requirement=cls.package_name or cls.name,
            documentation_url=cls.get_documentation_url(),
        )

    # State and stream maps

    @property
    def state(self) -> Mapping[str, Any]:
        """State of the plugin. Only taps have one: they override this property."""
        raise NotImplementedError

    def setup_mapper(self) -> None:
        """Create `mapper` from the settings for stream maps and flattening.

        Raises:
            StreamMapConfigError: A stream map is invalid.
            ConfigValidationError: Flattening is enabled without a maximum level.
        """
        self._make_mapper()

    def _make_mapper(self) -> None:
        """Create the stream maps. Subclasses then register the schemas of their streams."""
        from tap_core.mapper.plugin_mapper import PluginMapper

        self._mapper_is_due = False
        self._mapper = PluginMapper(plugin_config=self._config, logger=self.logger)

    @property
    def mapper(self) -> PluginMapper:
        """Stream maps of the plugin.

        Raises:
            MapperNotInitialized: `setup_mapper` has not been called.
        """
        if self._mapper is None and self._mapper_is_due:
            self._make_mapper()
        if self._mapper is None:
            raise MapperNotInitialized
        return self._mapper

    @mapper.setter
    def mapper(self, mapper: PluginMapper) -> None:
        self._mapper = mapper

    # Command line and signals

    @classmethod
    def get_command(cls, args: Sequence[str]) -> CliCommand:  # noqa: ARG003  for overrides
        """Return the command that runs the plugin with the command-line arguments ``args``.

        By default it is the Singer command. Subclasses override this method to add other protocols.
        """
        return cls.get_singer_command()

    @classmethod
    def get_singer_command(cls) -> CliCommand:
        """Return the command with Singer's options, such as ``--config``; subclasses define it."""
        raise NotImplementedError

    def _setup_signal_handlers(self) -> None:
        # Python delivers signals to the main thread, and only there may handlers be set.
        if threading.current_thread() is threading.main_thread():
            handle_termination(self._handle_signal)

    def _handle_signal(self, signum: int, frame: FrameType | None) -> None:
        """Stop the plugin after a signal, unless the signal repeats the request to stop."""
        repeats = is_repetition(signum, self._received_signals)
        self._received_signals += (signum,)
        if not repeats:
            self._handle_termination(signum, frame)

    @property
    def stopped_by(self) -> int | None:
        """Number of the first signal that requested a stop, such as 15 for SIGTERM, or None."""
        return next(iter(self._received_signals), None)

    def _handle_termination(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """End the process after a signal. Plugins that must save data override this method."""
        self.logger.info("Gracefully shutting down...")
        sys.exit(0)


def _load_config(
    config: Mapping[str, Any] | PurePath | str | Sequence[PurePath | str] | None,
) -> dict[str, Any]:
    """Return a plugin's settings as a new dict; passing paths of settings files is deprecated."""
    if not config:
        return {}
    if isinstance(config, Mapping):
        return dict(config)
    if isinstance(config, (str, PurePath)):
        _warn_of_paths("a configuration file's path")
        return read_config_files([config])
    if isinstance(config, (list, tuple)):
        _warn_of_paths("a list of configuration files' paths")
        return read_config_files(config)
    raise TypeError(f"The configuration must be a mapping, not '{type(config).__name__}'.")


def _warn_of_paths(argument: str) -> None:
    warnings.warn(
        f"Passing {argument} is deprecated; pass the configuration as a dictionary.",
        SingerSDKDeprecationWarning,
        stacklevel=4,
    )


@cache
def _version(package: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return _NO_VERSION
