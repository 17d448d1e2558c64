"""Import rules as tables: the layer of each package, and where other libraries may be imported.

A package imports from its own layer and from lower ones, never from a higher one. Two packages of
one layer may import each other as long as that makes no import cycle. Imports for type checking and
imports inside functions count like all others.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "COMPATIBILITY_PATHS",
    "EXTRACT_MAY_USE",
    "HEAVY",
    "LAYERS",
    "LIGHT",
    "PROTOCOL_PACKAGES",
    "TARGET_MAY_USE",
    "LibraryUse",
]

LAYERS: dict[str, int] = {
    # Shared values and errors ------------------------------------------------------------
    "tap_core.types": 1,  # records, contexts, paths
    "tap_core.events": 1,  # the events of a sync
    "tap_core.exceptions": 1,  # the error hierarchy
    "tap_core.compat.classproperty": 1,  # property of a class
    "tap_core.compat.deprecation": 1,  # renamed modules and members
    "tap_core.parsing.datetimes": 1,  # date-times from and to text
    "tap_core.singerlib.json": 1,  # JSON decoding that keeps all digits of numbers
    "tap_core.parsing.jsonpath": 1,  # values of a JSON document by path
    "tap_core.limits.memory": 1,  # memory limits for input
    "tap_core.compat": 1,
    "tap_core.io": 2,
    "tap_core.limits": 1,
    "tap_core.parsing": 1,
    "tap_core.parsing.command_line": 1,  # command lines as typer applications
    "tap_core.io.standard_streams": 1,  # standard input and output that are closed
    "tap_core.io.stdin": 1,  # blocks of standard input, with a timer
    "tap_core.http.fail_fast": 1,  # mode without long retries, for connection tests
    "tap_core.config.similar_names": 1,  # suggestions for misspelled names
    "tap_core.redaction": 1,  # secrets, and texts without them
    "tap_core.telemetry": 1,  # traces and metrics through OpenTelemetry
    "tap_core.io.private_files": 1,  # files that only their owner can read
    "tap_core.protocols.error_classification": 1,  # failure types, and advice for users
    "tap_core.http.https_policy": 1,  # rule for unencrypted requests
    "tap_core.parsing.varint_decoding": 1,  # variable-length integers
    "tap_core.limits.environment": 1,  # limits set by environment variables
    "tap_core.limits.regex": 1,  # regular expressions with a time limit
    "tap_core.limits.bounded_operations": 1,
    # Schema, configuration, catalog, HTTP -----------------------------------------------
    "tap_core.typing": 2,  # th.*: JSON Schema written as Python
    "tap_core.schema": 2,  # references, normal form, where a stream's schema comes from
    "tap_core.singerlib": 3,
    "tap_core.singerlib.schema": 2,
    "tap_core.singerlib.catalog": 2,  # streams, metadata, selection
    "tap_core.config.dotenv_file": 2,  # the variables of one plugin in a .env file
    "tap_core.config": 1,
    "tap_core.config.loading": 2,  # settings from files and variables
    "tap_core.config.validation": 2,  # errors in settings, with their paths
    "tap_core.config.meltano_settings": 2,  # settings as Meltano defines them
    "tap_core.metrics": 2,
    "tap_core.logging": 2,
    "tap_core.http": 2,  # requests, responses, retries, rate limits
    "tap_core.pagination": 2,  # page tokens
    # Pure functions of schema and state -------------------------------------------------
    "tap_core.records": 3,  # functions of a record, compiled from the schema
    "tap_core.state": 3,  # the state document
    "tap_core.capabilities": 3,
    "tap_core.compat.author_overrides": 3,
    "tap_core.batch": 3,  # files of BATCH messages
    "tap_core.incremental": 3,  # date cursors: formats, windows, request options
    "tap_core.authenticators": 3,  # credentials of requests
    # Parts that all plugins share -------------------------------------------------------
    "tap_core.about": 4,
    "tap_core.plugin_base": 4,
    "tap_core.mapper": 4,  # stream maps, compiled once
    "tap_core.sinks": 4,  # sinks of a target
    # The sync engine and the protocols --------------------------------------------------
    "tap_core.sync": 5,  # plan, engine, child streams
    "tap_core.preview": 5,  # first records of a stream, shown to people
    "tap_core.protocols": 5,  # readers, writers and command lines of the protocols
    # Base classes of streams ------------------------------------------------------------
    "tap_core.streams": 6,
    # Packages that use all others -------------------------------------------------------
    "tap_core.tap_base": 7,
    "tap_core.target_base": 7,
    "tap_core.mapper_base": 7,
    "tap_core.sql": 7,  # SQL taps and targets
    "tap_core.connectors": 7,  # compatibility path of the SQL connector
    "tap_core": 7,
    "tap_core.compat.import_alias": 7,
    "tap_core.scaffold": 8,  # templates of a new project
    "tap_core.cli": 8,  # `tap-core run`, `tap-core new`
    "tap_core.__main__": 8,  # the same, as `python -m tap_core`
    "tap_core.manifest": 8,  # low-code connectors in YAML
    "tap_core.filesystem": 8,  # files of a folder as streams
    "tap_core.testing": 8,  # standard tests for taps and targets
    # The loader -------------------------------------------------------------------------
    "target_spark.errors": 1,  # errors, with messages for users
    "target_spark.phase_timing": 1,  # phases of a run in progress
    "target_spark.tables": 1,
    "target_spark.tables.identifiers": 1,  # source names to column and table names
    "target_spark.storage": 1,
    "target_spark.storage.uris": 1,  # locations of folders
    "target_spark.storage.row_ordinals": 1,
    "target_spark.spark": 1,
    "target_spark.spark.exact_value_conf": 1,  # Spark settings that decide stored values
    "target_spark.storage.error_explanations": 1,  # error codes of object stores
    "target_spark.tables.quarantine_summary": 1,  # reasons and examples of quarantined rows
    "target_spark.tables.table": 1,  # tables and their layout
    "target_spark.spark.jvm": 1,  # JVM options
    "target_spark.loader": 1,
    "target_spark.tables.commit_metadata": 1,  # metadata stored in each commit
    "target_spark.loader.pending_states": 1,  # states that wait for the commit of their rows
    "target_spark.loader.state_release": 1,  # committed batches and emitted states
    "target_spark.loader.report": 1,  # counts of a run
    "target_spark.loader.metrics": 1,  # METRIC lines
    "target_spark.loader.progress": 2,  # progress for people
    "target_spark.tables.constraint_violations": 2,  # table constraints that a batch violates
    "target_spark.columns": 2,  # JSON Schema to columns; schema evolution
    "target_spark.spark.jar_versions": 1,  # versions and hashes of jars, written by a script
    "target_spark.spark.jar_cache": 2,  # cached jars, checked before use
    "target_spark.spark.format_settings": 1,  # Spark settings of the table formats
    "target_spark.spark.jars": 2,  # jars of the table formats
    "target_spark.storage.lock_files": 1,  # lock files and their permissions
    "target_spark.storage.job_lock": 2,  # one run per job
    "target_spark.config": 1,
    "target_spark.config.options": 2,  # options of a load
    "target_spark.loader.state_output": 2,  # state messages on standard output
    "target_spark.storage.commit_retry": 2,  # which failures are retried, and for how long
    "target_spark.loader.state_inspection": 2,  # completeness of streams, read from states
    "target_spark.loader.batch_file_checks": 2,  # files named by BATCH messages
    "target_spark.storage.spool": 2,  # rows on disk until their commit
    "target_spark.spark.py4j_logging": 2,  # py4j's log messages about an ended JVM
    "target_spark.storage.shared_storage_check": 3,  # check that executors see a folder
    "target_spark.storage.hadoop_fs": 2,  # files through Hadoop's file systems
    "target_spark.spark.row_counts": 2,  # row counts of Spark actions
    "target_spark.spark.launch_files": 2,  # private files with settings for the JVM
    "target_spark.spark.access_protection": 3,  # access to Spark's ports and files
    "target_spark.spark.session": 3,  # sessions with a JVM of this process
    "target_spark.spark.connect_checks": 3,  # requirements for a Spark Connect server
    "target_spark.spark.connect_session": 3,  # sessions through Spark Connect
    "target_spark.spark.class_archive": 4,  # class archive for a faster JVM start
    "target_spark.loader.version_tracker": 1,  # ACTIVATE_VERSION and versions of rows
    "target_spark.loader.stream_context": 3,  # loader state of one stream
    "target_spark.loader.commit_request": 3,  # requests from the loader to the batch writer
    "target_spark.tables.runs_table": 3,  # rows of the table of runs
    "target_spark.loader.quarantine_limit": 4,  # limit on quarantined rows
    "target_spark.tables.quarantine_table": 3,  # rows of the quarantine table
    "target_spark.cli": 1,
    "target_spark.cli.schema_input": 2,  # SCHEMA given by a user
    "target_spark.cli.last_state": 5,  # last state in the tables
    "target_spark.cli.table_reader": 5,  # rows and counts of tables, mostly without Spark
    "target_spark.cli.table_overview": 5,  # history of runs, and one table
    "target_spark.cli.report_plots": 1,  # plots of the HTML report
    "target_spark.cli.html_report": 5,  # runs and tables as one page
    "target_spark.cli.engine": 5,  # start and end of engines
    "target_spark.cli.replay": 6,  # reloading of quarantined rows
    "target_spark.cli.commands": 7,  # sub-commands
    "target_spark.cli.doctor": 6,  # checks of an installation
    "target_spark.tables.iceberg_metadata": 2,  # snapshots in an Iceberg table's metadata file
    "target_spark.tables.parquet_manifest": 3,  # committed files of a Parquet table
    "target_spark.readers": 4,  # tables read in Python without Spark
    "target_spark.tables.layout_resolution": 3,  # layout of a stream's table
    "target_spark.loader.schema_change_errors": 3,  # errors for schemas that a policy refuses
    "target_spark.loader.strict_validation": 4,
    "target_spark.loader.undeclared_properties": 3,
    "target_spark.config.validation": 3,  # settings that exclude each other
    "target_spark.loader.stream_maps": 2,  # stream maps in the target
    "target_spark.config.settings": 4,  # settings schema and parsing
    "target_spark.frames": 3,  # spooled rows to DataFrames, with exact conversions
    "target_spark.writers": 4,  # one per table format
    "target_spark.storage.staging_area": 3,
    "target_spark.storage.staged_rows": 3,  # rows staged in files of Spark
    "target_spark.loader.batch_file_download": 4,
    "target_spark.loader.batch_file_ingest": 4,  # rows of BATCH files into the spool
    "target_spark.spark.spark_provider": 4,  # start and end of Spark
    "target_spark.warm_engine": 3,  # a Spark that stays between runs
    "target_spark.loader.write_modes": 4,  # write operation by write mode
    "target_spark.loader.signal_handling": 4,  # SIGINT and SIGTERM during a load
    "target_spark.loader.terminal_summary": 4,  # tables and advice at the end of a run
    "target_spark.loader.engine_retry": 4,  # retries of work that uses Spark
    "target_spark.loader.batch_commit": 4,  # commit of one batch to its table
    "target_spark.loader.after_load": 4,  # programs and SQL statements after a load
    "target_spark.loader.lineage": 5,  # events of a run for OpenLineage
    "target_spark.loader.webhook": 4,  # outcome of a run, sent to a URL
    "target_spark.loader.runs_table_writer": 4,  # append of a run to the table of runs
    "target_spark.loader.commit_attempt": 4,  # stages of one commit
    "target_spark.loader.commit_pipeline": 4,  # queues and writer threads
    "target_spark.loader.final_commits": 4,  # overwrites; deletion of old versions
    "target_spark.loader.load_session": 5,  # one run of the loader
    "target_spark.loader.loader": 5,  # events to batches and states
    "target_spark.spark.arrow_workers": 3,  # functions run by Spark's Python workers
    "target_spark.extract": 7,  # streams read on a cluster
    "target_spark.loader.interfaces": 3,  # interface of a protocol to the loader
    "target_spark.airbyte": 7,  # Airbyte destination
    "target_spark.fivetran": 7,  # Fivetran destination
    "target_spark.target": 8,  # the plugin: settings and commands
    "target_spark.__main__": 8,  # the same, as `python -m target_spark`
    "target_spark": 8,
}
"""Layer by package. The longest name that fits decides; a module without a layer is an error."""

COMPATIBILITY_PATHS: tuple[str, ...] = (
    "tap_core.configuration",
    "tap_core.contrib",
    "tap_core.helpers",
    "tap_core.io_base",
    "tap_core.singerlib.encoding",
    "tap_core.singerlib.types",
    "tap_core.singerlib.utils",
)
"""Compatibility import paths of singer_sdk, above every layer; no other module imports them."""

PROTOCOL_PACKAGES: tuple[str, ...] = (
    "tap_core.protocols.singer",
    "tap_core.protocols.airbyte",
    "tap_core.protocols.fivetran",
)
"""Packages that do not import each other."""

TARGET_MAY_USE: tuple[str, ...] = (
    "tap_core.config.similar_names",
    "tap_core.types",
    "tap_core.events",
    "tap_core.exceptions",
    "tap_core.http.origins",
    "tap_core.http.retry",
    "tap_core.http.transport",
    "tap_core.limits.memory",
    "tap_core.limits.environment",
    "tap_core.io",
    "tap_core.parsing.datetimes",
    "tap_core.typing",
    "tap_core.schema",
    "tap_core.config.loading",
    "tap_core.config.validation",
    "tap_core.metrics",
    "tap_core.logging",
    "tap_core.redaction",
    "tap_core.telemetry",
    "tap_core.capabilities",
    "tap_core.about",
    "tap_core.parsing.command_line",
    "tap_core.plugin_base",
    "tap_core.batch",
    "tap_core.mapper",
    "tap_core.records",
    "tap_core.sinks",
    "tap_core.protocols",
)
"""Modules of tap_core that target_spark may import. tap_core never imports target_spark."""

EXTRACT_MAY_USE: tuple[str, ...] = (
    *TARGET_MAY_USE,
    "tap_core.compat.import_alias",
    "tap_core.singerlib.catalog",
    "tap_core.http",
    "tap_core.manifest",
    "tap_core.protocols.resume",
    "tap_core.state",
    "tap_core.sync",
    "tap_core.tap_base",
)
"""Modules of tap_core that target_spark.extract may import: it runs a tap."""


class LibraryUse(NamedTuple):
    """Modules that may import a library; with ``lazily`` only inside functions."""

    modules: tuple[str, ...]
    lazily: bool
    why: str


HEAVY: dict[str, LibraryUse] = {
    "fivetran_tester": LibraryUse(
        ("tap_core.cli",), lazily=True, why="a tool beside the packages, started by `tap-core`"
    ),
    "pyspark": LibraryUse(
        (
            "target_spark.spark.session",
            "target_spark.storage.shared_storage_check",
            "target_spark.frames",
            "target_spark.loader.after_load",
            "target_spark.loader.batch_commit",
            "target_spark.loader.runs_table_writer",
            "target_spark.loader.batch_file_ingest",
            "target_spark.loader.batch_file_download",
            "target_spark.storage.staged_rows",
            "target_spark.storage.staging_area",
            "target_spark.tables.quarantine_table",
            "target_spark.cli.last_state",
            "target_spark.cli.replay",
            "target_spark.cli.table_reader",
            "target_spark.cli.doctor",
            "target_spark.spark.spark_provider",
            "target_spark.warm_engine",
            "target_spark.spark.connect_session",
            "target_spark.spark.connect_checks",
            "target_spark.storage.hadoop_fs",
            "target_spark.spark.row_counts",
            "target_spark.spark.arrow_workers",
            "target_spark.extract",
            "target_spark.fivetran",
            "target_spark.loader.write_modes",
            "target_spark.writers",
        ),
        lazily=False,
        why="half a second to import, and it starts a JVM; imported inside functions",
    ),
    "rich": LibraryUse(
        ("target_spark.loader.progress", "tap_core.preview.tables"),
        lazily=True,
        why="draws on terminals only",
    ),
    "py4j": LibraryUse(
        ("target_spark.spark.session", "target_spark.frames", "target_spark.writers"),
        lazily=True,
        why="calls into the JVM",
    ),
    "typer": LibraryUse(
        (
            "tap_core.parsing.command_line",
            "tap_core.protocols.singer.cli",
            "tap_core.protocols.singer.preview_command",
            "tap_core.protocols.airbyte.cli",
            "tap_core.protocols.airbyte.cli_args",
            "tap_core.protocols.airbyte.source_commands",
            "tap_core.protocols.fivetran.port_command",
            "tap_core.cli",
            "tap_core.manifest.cli",
            "target_spark.cli.commands",
            "target_spark.airbyte.cli",
        ),
        lazily=False,
        why="only the modules of command lines need it, and they are imported when called",
    ),
    "argparse": LibraryUse(
        ("target_spark.spark.launch_files", "target_spark.spark.class_archive"),
        lazily=False,
        why="command lines are typer applications; these two parse Spark's own arguments",
    ),
    "jsonschema": LibraryUse(
        (
            "tap_core.schema",
            "tap_core.sinks.validation",
            "tap_core.typing.validators",
        ),
        lazily=True,
        why="slow to import; needed only to validate",
    ),
    "regex": LibraryUse(
        ("tap_core.limits.regex",),
        lazily=True,
        why="slow to import; needed only for patterns that may backtrack",
    ),
    "referencing": LibraryUse(
        ("tap_core.schema.references", "tap_core.schema.validators"),
        lazily=True,
        why="part of jsonschema, and as slow",
    ),
    "jsonpath_ng": LibraryUse(
        ("tap_core.parsing.jsonpath",),
        lazily=True,
        why="slow to import and to run; common paths do not need it",
    ),
    "pendulum": LibraryUse(
        ("tap_core.parsing.iso8601",),
        lazily=True,
        why="slow to import; needed only for date-times that the standard library cannot parse",
    ),
    "dotenv": LibraryUse(
        ("tap_core.config.dotenv_file",),
        lazily=True,
        why="needed only to read settings from variables",
    ),
    "requests": LibraryUse(
        (
            "tap_core.http",
            "tap_core.telemetry",
            "tap_core.redaction.http",
            "tap_core.streams.credential_origins",
            "tap_core.streams.http_requests",
            "tap_core.streams.rest",
            "tap_core.authenticators",
            "tap_core.pagination",
            "tap_core.schema.loading",
            "tap_core.manifest",
        ),
        lazily=False,
        why="a tap that reads files loads no HTTP client",
    ),
    "urllib3": LibraryUse(
        (
            "tap_core.http.connection_pools",
            "tap_core.http.response_body",
            "tap_core.http.proxies",
        ),
        lazily=False,
        why="connection pools and errors of requests, of which it is a dependency",
    ),
    "fsspec": LibraryUse(
        ("tap_core.batch", "tap_core.filesystem"),
        lazily=True,
        why="needed only for remote files",
    ),
    "aiohttp": LibraryUse(
        ("tap_core.http.file_systems",), lazily=True, why="the HTTP client of fsspec"
    ),
    "paramiko": LibraryUse(
        ("tap_core.filesystem.sftp",), lazily=True, why="the SSH client of fsspec"
    ),
    "deltalake": LibraryUse(
        (
            "target_spark.readers.delta",
            "target_spark.writers.delta.deltalake_commit",
            "target_spark.writers.delta.deltalake_snapshot",
        ),
        lazily=True,
        why="Delta tables without Spark; never needed by a tap",
    ),
    "pyiceberg": LibraryUse(
        ("target_spark.readers.iceberg",), lazily=True, why="an extra: Iceberg tables without Spark"
    ),
    "isodate": LibraryUse(
        ("tap_core.manifest.cdk_compat.cursors",),
        lazily=True,
        why="an extra: durations of custom cursors",
    ),
    "duckdb": LibraryUse(("target_spark.readers.warehouse",), lazily=True, why="if a user has it"),
    "pandas": LibraryUse(("target_spark.readers.warehouse",), lazily=True, why="if a user has it"),
    "polars": LibraryUse(("target_spark.readers.warehouse",), lazily=True, why="if a user has it"),
    "pyarrow": LibraryUse(
        (
            "tap_core.batch",
            "fivetran_tester",
            "target_spark.fivetran",
            "target_spark.extract",
            "target_spark.frames.arrow_batch",
            "target_spark.frames.arrow_conversion",
            "target_spark.frames.local_frame",
            "target_spark.loader.runs_table_writer",
            "target_spark.writers.delta.data_files",
            "target_spark.writers.delta.deltalake_commit",
            "target_spark.writers.delta.deltalake_snapshot",
            "target_spark.writers.delta.small_batches",
            "target_spark.readers",
            "target_spark.tables.parquet_manifest",
            "target_spark.writers.parquet_footers",
            "target_spark.cli.table_reader",
        ),
        lazily=False,
        why="an extra: Parquet, Fivetran's batch files, and rows converted without Spark",
    ),
    "faker": LibraryUse(
        ("tap_core.mapper",), lazily=True, why="an extra: generated values in stream maps"
    ),
    "cryptography": LibraryUse(
        (
            "tap_core.authenticators",
            "fivetran_tester",
            "target_spark.fivetran.file_reader",
        ),
        lazily=True,
        why="needed only to sign requests and to decrypt files",
    ),
    "jwt": LibraryUse(
        ("tap_core.authenticators",), lazily=True, why="needed only to sign requests"
    ),
    "backoff": LibraryUse(
        ("tap_core.http", "tap_core.streams"), lazily=True, why="retries of requests"
    ),
    "sqlalchemy": LibraryUse(
        ("tap_core.sql", "tap_core.typing.sql"), lazily=False, why="an extra: only SQL taps have it"
    ),
    "grpc": LibraryUse(("tap_core.protocols.fivetran",), lazily=False, why="an extra"),
    "grpc_tools": LibraryUse(
        ("tap_core.protocols.fivetran.proto_diff",),
        lazily=True,
        why="compiler, needed only for the comparison with Fivetran's files",
    ),
    "google": LibraryUse(("tap_core.protocols.fivetran",), lazily=False, why="protobuf; an extra"),
    "jinja2": LibraryUse(
        ("tap_core.manifest", "target_spark.cli.html_report"), lazily=False, why="an extra"
    ),
    "pygal": LibraryUse(
        ("target_spark.cli.report_plots",), lazily=False, why="an extra: plots of the HTML report"
    ),
    "yaml": LibraryUse(
        ("tap_core.manifest", "tap_core.schema.yaml", "tap_core.schema.yaml_checks"),
        lazily=False,
        why="an extra",
    ),
    "opentelemetry": LibraryUse(
        ("tap_core.telemetry",), lazily=True, why="an extra: needed only where telemetry is on"
    ),
    "openlineage": LibraryUse(
        ("target_spark.loader.lineage",), lazily=True, why="an extra: needed only if it is set up"
    ),
    "pytest": LibraryUse(("tap_core.testing",), lazily=False, why="an extra"),
}
"""Modules that may import each library. A library that is neither here nor in LIGHT is refused.

``lazily`` allows imports inside functions and imports for type checking only.
"""

LIGHT: frozenset[str] = frozenset({"msgspec", "typing_extensions"})
"""Libraries that every module may import."""
