"""The command `target-spark engine`, which starts, shows and stops a shared Spark process.

An engine is a Spark process that keeps running in the background, so that runs with the same
settings need not start Spark.
"""

from __future__ import annotations

from typing import Any, Final

from tap_core.config.similar_names import list_names
from tap_core.io.private_files import UntrustedPathError
from target_spark.errors import SparkUnavailableError
from target_spark.spark.session import SparkSettings
from target_spark.warm_engine.engine_folder import EngineFolder, engines_folder, list_engines
from target_spark.warm_engine.identity import Identity, find_differences
from target_spark.warm_engine.session import may_use_engine
from target_spark.warm_engine.start import start_engine

__all__ = ["describe_engine", "show_engines", "start", "stop"]

_START_SECONDS: Final = 600.0
_RESPONSE_SECONDS: Final = 30.0
_MAX_NAMES: Final = 5


def start(settings: SparkSettings) -> tuple[int, list[str]]:
    """Start a background Spark process (engine) with these settings, unless one is running.

    Wait until Spark has started in this process.

    Args:
        settings: The Spark settings of a run.

    Returns:
        The exit code, and the lines to print.

    Raises:
        SparkUnavailableError: Runs with these settings cannot use an engine, or it did not start.
    """
    if not may_use_engine(settings):
        raise SparkUnavailableError(
            "Runs with these settings cannot use an engine, a Spark process on this machine that"
            " later runs share. Set master to local[...] and engine to auto or keep, remove remote,"
            " and store the tables in folders or in a catalog other than spark_catalog."
        )
    identity = Identity.of_run(settings)
    try:
        folder, connection, is_new = start_engine(settings, identity)
        connection.close()
        status = folder.request(_START_SECONDS, request="status", wait=True)
    except UntrustedPathError as error:
        raise _make_untrusted_error(error) from None
    except OSError as error:
        raise SparkUnavailableError(
            f"The engine ended at its start ({error}); its messages are in a log below"
            f" {engines_folder()}."
        ) from error
    if status["error"]:
        raise SparkUnavailableError(f"{status['error']} (The engine's log is {folder.log}.)")
    outcome = (
        "The engine was started" if is_new else "An engine with these settings is already running"
    )
    return 0, [f"{outcome}: {_describe(status)}."]


def show_engines(settings: SparkSettings) -> tuple[int, list[str]]:
    """Describe the running background Spark processes (engines) of the current user.

    Returns:
        The exit code and the lines to print. The code is 0 if a run with these settings would use
        an engine, else 1.

    Raises:
        SparkUnavailableError: Another user has access to the folder of an engine.
    """
    identity = Identity.of_run(settings)
    code = 1
    lines: list[str] = []
    try:
        for folder in list_engines():
            try:
                status = _request(folder, "status")
            except SparkUnavailableError as error:
                lines.append(str(error))
                continue
            if status is None:
                continue
            if folder.path.name == identity.key and may_use_engine(settings):
                code = 0
            lines.append(f"{_describe(status)}. {_describe_fit(identity, folder)}")
            lines += [f"  used by {run}" for run in status["runs"]]
    except UntrustedPathError as error:
        raise _make_untrusted_error(error) from None
    return code, lines or ["No engine is running."]


def stop(settings: SparkSettings) -> tuple[int, list[str]]:
    """Stop the background Spark process (engine) with these settings, unless a run uses it.

    Returns:
        The exit code and the lines to print. The code is 1 if a run uses the engine, else 0.

    Raises:
        SparkUnavailableError: The engine does not respond, or another user has access to its
            folder.
    """
    try:
        folder = EngineFolder.find(Identity.of_run(settings).key)
        response = None if folder is None else _request(folder, "stop")
    except UntrustedPathError as error:
        raise _make_untrusted_error(error) from None
    if response is None:
        return 0, ["No engine with these settings is running."]
    if response["runs"]:
        used = "; ".join(response["runs"])
        return 1, [f"The engine is not stopped, because a run uses it: {used}. Try again later."]
    return 0, ["The engine was stopped."]


def describe_engine(settings: SparkSettings) -> str | None:
    """Return a text about the background Spark process that a run with these settings would use.

    Return None if there is no such process.

    Raises:
        SparkUnavailableError: The process does not respond.
        UntrustedPathError: Another user has access to the folder of the process.
    """
    folder = EngineFolder.find(Identity.of_run(settings).key)
    status = None if folder is None else _request(folder, "status")
    return None if status is None else _describe(status)


def _request(folder: EngineFolder, request: str) -> dict[str, Any] | None:
    """Send a request, such as "status", to a background Spark process; return its response.

    If the process has ended, None is returned.

    Raises:
        SparkUnavailableError: The process runs, but does not respond.
        UntrustedPathError: Another user has access to the folder of the process.
    """
    try:
        return folder.request(_RESPONSE_SECONDS, request=request)
    except UntrustedPathError:
        raise
    except TimeoutError as error:
        pid = folder.read_description().get("pid")
        raise SparkUnavailableError(
            f"The engine of process {pid} runs, but did not respond within {_RESPONSE_SECONDS:g}"
            " seconds. Try again later, or end that process."
        ) from error
    except OSError:
        return None


def _describe(status: dict[str, Any]) -> str:
    idle = f"idle for {status['idle']} of {status['idle_limit']:g} s"
    use = "in use" if status["runs"] else idle
    application = status["application"] or "starting"
    return f"process {status['pid']}, JVM {status['jvm']}, Spark {application}, {use}"


def _describe_fit(identity: Identity, folder: EngineFolder) -> str:
    names = find_differences(identity, folder.read_description().get("identity", {}))
    if not names:
        return "A run with these settings uses it."
    return f"It was started with another value of: {list_names(names, _MAX_NAMES)}."


def _make_untrusted_error(error: UntrustedPathError) -> SparkUnavailableError:
    return SparkUnavailableError(
        f"No engine is used: {error}. Let only this user enter that folder, or remove it."
    )
