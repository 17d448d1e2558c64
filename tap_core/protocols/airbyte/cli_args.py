"""Parsing of the command lines of the Airbyte protocol, whose options are paths of files.

An error in the command line is not printed as text: `get_files` raises it, so that the command
reports it as an Airbyte message. Error messages end with the command's usage.
Source: the Airbyte protocol, section "Interface Invariants": all arguments are JSON files.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, TypeAlias

import typer

from tap_core.exceptions import ConfigurationError
from tap_core.parsing.command_line import Command

__all__ = [
    "AirbyteCommand",
    "CatalogPath",
    "ConfigPath",
    "Debug",
    "StatePath",
    "get_files",
]

_ERROR: Final = "tap_core.airbyte.usage_error"
"""Key of the stored usage error in ``meta`` of the typer context."""


def _enable_debug_log(value: bool) -> None:
    if value:
        logging.getLogger().setLevel(logging.DEBUG)


ConfigPath: TypeAlias = Annotated[
    str, typer.Option("--config", metavar="FILE", help="The settings, a JSON file.")
]
CatalogPath: TypeAlias = Annotated[
    str, typer.Option("--catalog", metavar="FILE", help="The configured catalog, a JSON file.")
]
StatePath: TypeAlias = Annotated[
    str,
    typer.Option(
        "--state", metavar="FILE", help="The state to resume from, a JSON file.", show_default=False
    ),
]
Debug: TypeAlias = Annotated[
    bool, typer.Option("--debug", help="Log more messages.", callback=_enable_debug_log)
]


class _UsageError(ConfigurationError):
    """Raised for command-line arguments that the Airbyte protocol does not allow."""


class AirbyteCommand(Command):
    """Typer command of the Airbyte protocol, such as ``read --config FILE --catalog FILE``.

    Parsing an invalid command line raises no error. Instead, `get_files` raises the error, so that
    the command can report it as an Airbyte message.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command-line arguments.

        The message of an error is stored in ``ctx``. Only `get_files` raises the error, later.
        """
        extra: list[str] = []
        try:
            _, extra, _ = self.make_parser(ctx).parse_args([*args])  # positional arguments
            super().parse_args(ctx, args)
        except typer.TyperException as error:
            ctx.meta[_ERROR] = self._describe_error(ctx, error)
        if extra:
            ctx.meta[_ERROR] = self._describe_unknown_option(extra[0].partition("=")[0])
        for param in self.params:
            ctx.params.setdefault(param.name, "")
        return []

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002  typer passes it
        """Return the options in the usage line, such as ``["--config FILE", "[--state FILE]"]``."""
        return [*self._usage_words()] or ["[OPTIONS]"]

    def _usage_words(self) -> Iterator[str]:
        param: Any
        for param in self.params:
            if param.metavar is not None:
                usage = f"{param.opts[0]} {param.metavar}"
                yield usage if param.required else f"[{usage}]"

    def _describe_error(self, ctx: Any, error: Any) -> str:
        """Return the message for the user about an error of typer's command-line parser."""
        option = getattr(error, "option_name", None)
        param = getattr(error, "param", None)
        if option is not None and not hasattr(error, "possibilities"):  # not a NoSuchOption
            return f"{option} needs the path of a file."
        if option is not None:
            return self._describe_unknown_option(option)
        if param is None or not param.required:
            return str(error.format_message())
        missing = [
            parameter.opts[0]
            for parameter in self.params
            if parameter.required and parameter.name not in ctx.params
        ]
        return f"'{self.name}' needs {', '.join(missing)}. {self._usage()}"

    def _describe_unknown_option(self, option: str) -> str:
        return f"'{self.name}' does not know '{option}'. {self._usage()}"

    def _usage(self) -> str:
        return " ".join(["Usage:", str(self.name), *self._usage_words()])


def get_files(context: typer.Context) -> Mapping[str, str]:
    """Return the file paths of a command line by option, such as ``{"config": "c.json"}``.

    Options that were not passed are left out. ``context`` is the typer context of an
    `AirbyteCommand`.

    Raises:
        ConfigurationError: A required option or a path is missing, or an option is unknown.
    """
    if _ERROR in context.meta:
        raise _UsageError(context.meta[_ERROR])
    options = [param for param in context.command.params if param.metavar is not None]
    for option in options:
        is_given = getattr(context.get_parameter_source(option.name), "name", "") == "COMMANDLINE"
        if is_given and not context.params[option.name]:
            raise _UsageError(f"{option.opts[0]} needs the path of a file.")
    return {
        option.name: context.params[option.name]
        for option in options
        if context.params[option.name]
    }
