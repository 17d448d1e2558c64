"""Private files that pass Spark's settings to its JVM without showing them to other users.

Every user of the machine can read the command line of a process. Therefore the settings are in
files (mode 0600, in a folder of mode 0700), and the command line contains only their paths: a file
for ``spark-submit --properties-file``, and files of Java options for ``java @file``. The files are
deleted once the JVM runs.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tap_core.io.private_files import replace_file
from target_spark.errors import SparkUnavailableError

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["format_java_properties", "get_utf8_locale", "launch_environment"]

_SUBMIT_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
_SUBMIT_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
_LIBRARIES: Final = "LD_LIBRARY_PATH"
_EXTRA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_OPTION_SETTINGS: Final = ("spark.driver.defaultJavaOptions", _EXTRA_OPTIONS)

_HIDDEN: Final = ("-D", "-javaagent:", "-agentlib:", "-agentpath:", "-XX:On")
"""Prefixes of the Java options that may contain secrets. Options with these prefixes are moved to
a private file; all others, such as ``-Xmx4g``, stay on the command line."""

_QUOTED_TEXT: Final = r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\."
_JAVA_OPTION: Final = re.compile(rf"(?:{_QUOTED_TEXT}|[^\s'\"\\])+", re.DOTALL)
"""Regular expression for one Java option in a text with several. The options are separated by the
rules of a shell, as in Spark's launcher."""

_QUOTING: Final = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)", re.DOTALL)
"""Regular expression for quoted text in an option: in single quotes, in double quotes, or one
character after a backslash."""

_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9._-]")


@contextmanager
def launch_environment(
    conf: Mapping[str, str], java: str, environ: Mapping[str, str] | None = None
) -> Iterator[dict[str, str]]:
    """Context manager: write Spark's settings to private files, and yield environment variables.

    With these variables Spark reads the files, so that its command line shows no setting. Settings
    in the variables ``PYSPARK_SUBMIT_ARGS`` and ``SPARK_SUBMIT_OPTS`` are moved to the files too.

    Args:
        conf: Spark settings. They override ``spark-defaults.conf``.
        java: The path of the Java program that Spark will start.
        environ: The environment variables to read; None for those of this process.

    Raises:
        SparkUnavailableError: Java options contain an unpaired quotation mark or backslash.
    """
    environment = os.environ if environ is None else environ
    submit_settings, other_arguments = _parse_submit_arguments(
        environment.get(_SUBMIT_ARGUMENTS, "pyspark-shell")
    )
    settings = {**conf, **dict(item.partition("=")[::2] for item in submit_settings.conf)}
    if submit_settings.driver_java_options is not None:
        settings[_EXTRA_OPTIONS] = submit_settings.driver_java_options
    with tempfile.TemporaryDirectory(prefix="target-spark-launch-") as name:
        folder = Path(name)
        for number, key in enumerate(_OPTION_SETTINGS):
            if key in settings:
                file = folder / f"java-{number}.options"
                settings[key] = _hide_options(key, settings[key], file)
        variables = _get_library_path(java, settings, environment) | get_utf8_locale(environment)
        if environment.get(_SUBMIT_OPTIONS):
            file = folder / "java-submit.options"
            variables[_SUBMIT_OPTIONS] = _hide_options(
                _SUBMIT_OPTIONS, environment[_SUBMIT_OPTIONS], file
            )
        arguments = ["--properties-file", str(folder / "spark.properties")]
        text = format_java_properties(settings)
        if submit_settings.properties_file is None:
            arguments += ["--load-spark-defaults"]
        else:  # Spark reads only the last of two files, and of a repeated key the last value
            text = f"{Path(submit_settings.properties_file).read_text(encoding='utf-8')}\n\n{text}"
        replace_file(folder / "spark.properties", text)
        yield {**variables, _SUBMIT_ARGUMENTS: shlex.join([*arguments, *other_arguments])}


def get_utf8_locale(environ: Mapping[str, str]) -> dict[str, str]:
    """Return ``LC_ALL`` for a JVM that this process starts, so that paths may have any characters.

    Python uses UTF-8 for paths in the locales C and POSIX, but Java does not. Return {} for other
    locales.

    Args:
        environ: The environment variables of this process.
    """
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    locale = next((environ[name] for name in names if environ.get(name)), "C")
    return {"LC_ALL": "C.UTF-8"} if locale in {"C", "POSIX"} else {}


def _get_library_path(
    java: str, conf: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the variable ``LD_LIBRARY_PATH`` with Java's library folder before its present value.

    If a library path is set without this folder, Java restarts itself, and its new command line
    shows the options that were passed in private files. Return {} if no library path is set.
    """
    library_path = environ.get(_LIBRARIES)
    jvm_folder = Path(java).resolve().parent.parent / "lib" / "server"
    if not (library_path or conf.get("spark.driver.extraLibraryPath")) or not jvm_folder.is_dir():
        return {}
    return {_LIBRARIES: os.pathsep.join(filter(None, (str(jvm_folder), library_path)))}


def _parse_submit_arguments(text: str) -> tuple[Namespace, list[str]]:
    """Parse a command line of spark-submit, and separate the options that contain settings.

    Return the parsed options ``--conf``, ``--properties-file`` and ``--driver-java-options``, and
    the list of all other arguments.
    """
    import argparse  # not needed before Spark starts

    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False, exit_on_error=False)
    parser.add_argument("--conf", "-c", action="append", default=[])
    parser.add_argument("--properties-file")
    parser.add_argument("--driver-java-options")
    return parser.parse_known_args(shlex.split(text))


def _hide_options(key: str, text: str, file: Path) -> str:
    """Move Java options with values, such as ``-Dkey=value``, to a private file.

    Return the options for the command line: all others, and ``@file`` if the file was written.
    ``key`` is the name of the setting, for the error message.

    Raises:
        SparkUnavailableError: The options contain an unpaired quotation mark or backslash.
    """
    if _JAVA_OPTION.sub("", text).strip():
        raise SparkUnavailableError(
            f"{key} has an unpaired quotation mark or backslash: correct it."
        )
    visible: list[str] = []
    hidden: list[str] = []
    for option in _JAVA_OPTION.findall(text):
        plain = _unquote(option)
        if plain.startswith(_HIDDEN):
            hidden.append(plain)
        else:
            visible.append(option)
    if hidden:
        replace_file(file, "".join(f"{_quote_for_java(option)}\n" for option in hidden))
        visible.append(f'"@{file}"')
    return " ".join(visible)


def _unquote(option: str) -> str:
    """Return a Java option as a shell would read it: without quotes and escaping backslashes."""

    def remove_quotes(match: re.Match[str]) -> str:
        single, double, escaped = match.groups()
        return single or escaped or _ESCAPED.sub(r"\1", double or "")

    return _QUOTING.sub(remove_quotes, option)


def _quote_for_java(option: str) -> str:
    """Quote a Java option for a Java argument file (``java @file``)."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'.replace("\n", "\\n").replace("\r", "\\r")


def format_java_properties(settings: Mapping[str, str]) -> str:
    """Return settings as the text of a Java properties file."""
    return "".join(
        f"{_escape_property(key)}={_escape_property(value)}\n" for key, value in settings.items()
    )


def _escape_property(text: str) -> str:
    """Return a key or value escaped for a Java properties file, in ASCII."""

    def escape(match: re.Match[str]) -> str:
        return re.sub("(.{4})", r"\\u\1", match[0].encode("utf-16-be", "surrogatepass").hex())

    return _NOT_PLAIN.sub(escape, text)
