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
    "PEERS_OF_ONE_SHAPE",
    "TARGET_MAY_USE",
    "LibraryUse",
]

LAYERS: dict[str, int] = {
    # Shared values and errors ------------------------------------------------------------
    "tap_core.types": 1,  # records, contexts, paths
    "tap_core.events": 1,  # a sync is a stream of these
    "tap_core.exceptions": 1,  # the tree of errors
    "tap_core.compat.classproperty": 1,  # a property of a class
    "tap_core.compat.deprecation": 1,  # names that once stood elsewhere
    "tap_core.parsing.datetimes": 1,  # instants to and from text
    "tap_core.singerlib.json": 1,  # JSON documents whose numbers survive
    "tap_core.parsing.jsonpath": 1,  # values of a JSON document by path
    "tap_core.limits.memory": 1,  # how much is read into memory at once
    "tap_core.compat": 1,
    "tap_core.io": 2,
    "tap_core.limits": 1,
    "tap_core.parsing": 1,
    "tap_core.io.stdin": 1,  # blocks of bytes, and a beat while none come
    "tap_core.http.fail_fast": 1,  # whether somebody waits for a short answer
    "tap_core.config.similar_names": 1,  # what a misspelled name may mean
    "tap_core.redaction": 1,  # what is secret, and how texts are shown without it
    "tap_core.io.private_files": 1,  # files that no other user of the machine controls
    "tap_core.http.https_policy": 1,  # whether requests may leave unencrypted
    "tap_core.parsing.varints": 1,  # numbers of seven bits a byte
    "tap_core.limits.environment": 1,  # what input may cost, by variables of the operator
    "tap_core.limits.regex": 1,  # regular expressions of others, with a time limit
    "tap_core.limits.expressions": 1,
    # Words of the field, each a small world of its own ----------------------------------
    "tap_core.typing": 2,  # th.*: JSON Schema written as Python
    "tap_core.schema": 2,  # references, normal form, where a stream's schema comes from
    "tap_core.singerlib": 3,
    "tap_core.singerlib.schema": 2,
    "tap_core.singerlib.catalog": 2,  # streams, metadata, selection
    "tap_core.config.dotenv_file": 2,  # the variables of one plugin in a .env file
    "tap_core.config": 1,
    "tap_core.config.loading": 2,  # files and variables to settings
    "tap_core.config.validation": 2,  # every fault of the settings, with its path
    "tap_core.metrics": 2,
    "tap_core.logging": 2,
    "tap_core.http": 2,  # requests, answers, retries, budgets
    "tap_core.pagination": 2,  # from one page to the token of the next
    # Pure functions of schema and state -------------------------------------------------
    "tap_core.records": 3,  # schema -> function of a record
    "tap_core.state": 3,  # the state document and its rules
    "tap_core.capabilities": 3,
    "tap_core.compat.author_overrides": 3,
    "tap_core.batch": 3,  # files of rows: written and read, wherever they lie
    "tap_core.incremental": 3,  # a cursor of dates: formats, windows, what is asked and kept
    "tap_core.authenticators": 3,  # keys, tokens and passwords onto requests
    # What a plugin is, whatever it does -------------------------------------------------
    "tap_core.about": 4,
    "tap_core.plugin_base": 4,
    "tap_core.mapper": 4,  # stream maps, compiled once
    "tap_core.sinks": 4,  # what a target does with the records of a stream
    # Running and speaking ---------------------------------------------------------------
    "tap_core.sync": 5,  # plan, engine, children: a job to events
    "tap_core.protocols": 5,  # events to and from the messages of a protocol
    # What an author subclasses ----------------------------------------------------------
    "tap_core.streams": 6,
    # Packages that use all others -------------------------------------------------------
    "tap_core.tap_base": 7,
    "tap_core.target_base": 7,
    "tap_core.mapper_base": 7,
    "tap_core.sql": 7,  # tables as streams, and streams into tables
    "tap_core.connectors": 7,  # where its connectors stood once
    "tap_core": 7,
    "tap_core.compat.import_alias": 7,
    "tap_core.scaffold": 1,  # text of a new project; imports nothing else of the package
    "tap_core.cli": 8,  # `tap-core run`, `tap-core new`
    "tap_core.__main__": 8,  # the same, as python -m
    "tap_core.manifest": 8,  # connectors declared in YAML
    "tap_core.filesystem": 8,  # the files of a folder as streams
    "tap_core.testing": 8,  # the tests that every tap should pass; never imported by a tap
    # The loader -------------------------------------------------------------------------
    "target_spark.errors": 1,  # what can go wrong, in words for a person
    "target_spark.tables": 1,
    "target_spark.tables.identifiers": 1,  # source names to column and table names
    "target_spark.storage": 1,
    "target_spark.storage.uris": 1,  # addresses of folders
    "target_spark.storage.row_ordinals": 1,
    "target_spark.spark": 1,
    "target_spark.spark.exact_value_conf": 1,  # settings of Spark that decide what is stored
    "target_spark.storage.errors": 1,  # what a storage of objects says when it refuses
    "target_spark.tables.quarantine_summary": 1,  # what was set aside of a stream, in words
    "target_spark.tables.model": 1,  # which table, and how it is laid out
    "target_spark.spark.jvm": 1,  # how Spark's JVM is started, for speed
    "target_spark.loader": 1,
    "target_spark.loader.state_tracking": 1,  # states that wait, and the form in which they leave
    "target_spark.loader.ledger": 1,  # what is committed, and the states that leave for it
    "target_spark.loader.report": 1,  # what a run did, counted and told
    "target_spark.loader.metrics": 1,  # measurements of it, in Singer's format
    "target_spark.loader.progress": 2,  # how far it is, for people
    "target_spark.tables.constraints": 2,  # rules of a table that a batch breaks
    "target_spark.columns": 2,  # JSON Schema to columns, and how they may change
    "target_spark.spark.jar_versions": 1,  # versions and hashes of jars, written by a script
    "target_spark.spark.jar_cache": 2,  # jars that were fetched, checked before use
    "target_spark.spark.jars": 2,  # what a table format needs beside Spark
    "target_spark.storage.lock_files": 1,  # the files behind leases, and who may use them
    "target_spark.storage.job_lock": 2,  # one run per job
    "target_spark.config": 1,
    "target_spark.config.options": 2,  # what a user asked of the loader
    "target_spark.loader.state_output": 2,  # the way out for states, and nothing else
    "target_spark.storage.retry": 2,  # which failures pass, and how long that is waited for
    "target_spark.loader.state_inspection": 2,  # whether a stream is known to be complete
    "target_spark.loader.batch_files": 2,  # files that BATCH messages name
    "target_spark.storage.spool": 2,  # bytes on disk until they are written
    "target_spark.spark.py4j_logging": 2,  # what py4j logs of a JVM that is gone
    "target_spark.storage.shared_check": 3,  # folders that the executors of a cluster must see
    "target_spark.storage.hadoop_fs": 2,  # folders as Spark sees them
    "target_spark.spark.observation": 2,  # what an action has seen of rows, or a count of them
    "target_spark.spark.launch_files": 2,  # private files that hand settings to the JVM
    "target_spark.spark.access_protection": 3,  # who may read what a Spark holds
    "target_spark.spark.session": 3,  # the JVM
    "target_spark.spark.connect_checks": 3,  # what a Spark Connect server must have
    "target_spark.spark.connect_session": 3,  # a Spark that is reached through Spark Connect
    "target_spark.spark.class_archive": 4,  # classes kept for a fast start; a command of its own
    "target_spark.loader.table_versions": 1,  # versions of a stream's rows, and when others may go
    "target_spark.loader.stream_context": 3,  # what the fold knows of one stream
    "target_spark.loader.commit_request": 3,  # what the loader hands to the batch writer
    "target_spark.tables.quarantine": 3,  # rows that do not fit: their table and their limit
    "target_spark.cli": 1,
    "target_spark.cli.schema_input": 2,  # a stream's description in a user's document
    "target_spark.cli.last_state": 5,  # the last state that the tables hold
    "target_spark.cli.replay": 6,  # a quarantine loaded again
    "target_spark.cli.commands": 7,  # the words after the name: doctor, last-state, replay
    "target_spark.cli.doctor": 6,  # whether a run would work
    "target_spark.tables.layout_resolution": 3,  # how the table of a stream is laid out
    "target_spark.loader.record_validation": 4,
    "target_spark.loader.undeclared_properties": 3,
    "target_spark.config.validation": 3,  # settings that cannot be together, or not with a format
    "target_spark.loader.stream_maps": 2,  # records that stream maps change
    "target_spark.config.settings": 4,  # the settings' schema and what they mean
    "target_spark.frames": 3,  # spooled bytes to a DataFrame, strictly
    "target_spark.writers": 4,  # one per table format
    "target_spark.storage.staging_upload": 3,
    "target_spark.storage.staging": 3,  # rows that wait in files of Spark's
    "target_spark.loader.batch_file_download": 4,
    "target_spark.loader.batch_file_ingest": 4,  # rows of files as lines of the spool
    "target_spark.spark.engine": 4,  # what the loader asks of Spark
    "target_spark.loader.write_modes": 4,  # how rows go into a table, by write mode
    "target_spark.loader.batch_writer": 4,  # one spooled batch into its table
    "target_spark.loader.commit_attempt": 4,  # what the tries of one commit have reached
    "target_spark.loader.commit_pipeline": 4,  # a queue per table, its threads, what a commit ends
    "target_spark.loader.finalization": 4,  # what a stream's completion does to its table
    "target_spark.loader.load_session": 5,  # a run, and the target as its commands see it
    "target_spark.loader.loader": 5,  # the fold; data before state
    "target_spark.spark.arrow_workers": 3,  # functions over a frame, in Spark's Python workers
    "target_spark.extract": 7,  # a tap's streams read on a cluster
    "target_spark.loader.interfaces": 3,  # how a protocol is spoken with the loader
    "target_spark.airbyte": 7,  # the destination of that protocol: catalog, states, command
    "target_spark.fivetran": 7,  # the destination of that one: files, tables, calls, command
    "target_spark.target": 8,  # settings and the command
    "target_spark.__main__": 8,  # the same, as python -m
    "target_spark": 8,
}
"""Layer by package. The longest name that fits decides; a module without a layer is an error."""

COMPATIBILITY_PATHS: tuple[str, ...] = (
    "tap_core._singerlib",
    "tap_core.configuration",
    "tap_core.contrib",
    "tap_core.helpers",
    "tap_core.io_base",
    "tap_core.singerlib.encoding",
    "tap_core.singerlib.utils",
)
"""Compatibility import paths of singer_sdk, above every layer; no other module imports them."""

PEERS_OF_ONE_SHAPE: tuple[str, ...] = (
    "tap_core.protocols.singer",
    "tap_core.protocols.airbyte",
    "tap_core.protocols.fivetran",
)
"""Packages of which none imports another."""

TARGET_MAY_USE: tuple[str, ...] = (
    "tap_core.config.similar_names",
    "tap_core.types",
    "tap_core.events",
    "tap_core.exceptions",
    "tap_core.limits.memory",
    "tap_core.limits.environment",
    "tap_core.io",
    "tap_core.typing",
    "tap_core.schema",
    "tap_core.config.loading",
    "tap_core.config.validation",
    "tap_core.metrics",
    "tap_core.logging",
    "tap_core.redaction",
    "tap_core.capabilities",
    "tap_core.about",
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
            "target_spark.storage.shared_check",
            "target_spark.frames",
            "target_spark.loader.batch_writer",
            "target_spark.loader.batch_file_ingest",
            "target_spark.loader.batch_file_download",
            "target_spark.storage.staging",
            "target_spark.storage.staging_upload",
            "target_spark.tables.quarantine",
            "target_spark.cli.last_state",
            "target_spark.cli.replay",
            "target_spark.cli.doctor",
            "target_spark.spark.engine",
            "target_spark.spark.connect_session",
            "target_spark.spark.connect_checks",
            "target_spark.storage.hadoop_fs",
            "target_spark.spark.observation",
            "target_spark.spark.arrow_workers",
            "target_spark.extract",
            "target_spark.fivetran",
            "target_spark.loader.write_modes",
            "target_spark.writers",
        ),
        lazily=False,
        why="half a second to import, and a JVM behind it; imported inside functions",
    ),
    "rich": LibraryUse(
        ("target_spark.loader.progress",), lazily=True, why="only a terminal shows what it draws"
    ),
    "py4j": LibraryUse(
        ("target_spark.spark.session", "target_spark.frames", "target_spark.writers"),
        lazily=True,
        why="the bridge to that JVM",
    ),
    "typer": LibraryUse(
        ("tap_core.protocols.singer.cli",),
        lazily=False,
        why="only the protocol packages have command lines, and they are imported when called",
    ),
    "jsonschema": LibraryUse(
        (
            "tap_core.schema",
            "tap_core.sinks.validation",
            "tap_core.typing.validators",
        ),
        lazily=True,
        why="slow to import, and needed only when there is something to check",
    ),
    "regex": LibraryUse(
        ("tap_core.limits.regex",),
        lazily=True,
        why="slow to import; only where a pattern may backtrack",
    ),
    "referencing": LibraryUse(
        ("tap_core.schema.references", "tap_core.schema.validators"),
        lazily=True,
        why="comes with jsonschema, and is as slow",
    ),
    "jsonpath_ng": LibraryUse(
        ("tap_core.parsing.jsonpath",),
        lazily=True,
        why="slow to import and to run, and everyday paths do without",
    ),
    "pendulum": LibraryUse(
        ("tap_core.parsing.instants",),
        lazily=True,
        why="slow to import; only for instants that the standard library does not read",
    ),
    "dotenv": LibraryUse(
        ("tap_core.config.dotenv_file",),
        lazily=True,
        why="needed only when variables are asked for",
    ),
    "requests": LibraryUse(
        (
            "tap_core.http",
            "tap_core.redaction.http",
            "tap_core.streams.http",
            "tap_core.streams.rest",
            "tap_core.authenticators",
            "tap_core.pagination",
            "tap_core.schema.loading",
            "tap_core.manifest",
        ),
        lazily=False,
        why="a tap that reads files pays for no HTTP client",
    ),
    "urllib3": LibraryUse(
        ("tap_core.http.connection_pools",),
        lazily=False,
        why="the connections of requests, which it comes with; nothing else may depend on them",
    ),
    "fsspec": LibraryUse(
        ("tap_core.batch", "tap_core.filesystem"),
        lazily=True,
        why="needed only for files elsewhere; Python itself opens those on disk",
    ),
    "deltalake": LibraryUse(
        ("target_spark.writers.delta.transaction",),
        lazily=True,
        why="commits to Delta tables in local folders; a tap never needs it",
    ),
    "pyarrow": LibraryUse(
        (
            "tap_core.batch",
            "fivetran_tester",
            "target_spark.fivetran",
            "target_spark.extract",
            "target_spark.writers.parquet_footers",
        ),
        lazily=False,
        why="an extra: Parquet and Fivetran's batch files; imported inside functions",
    ),
    "faker": LibraryUse(
        ("tap_core.mapper",), lazily=True, why="an extra: made-up values in stream maps"
    ),
    "cryptography": LibraryUse(
        (
            "tap_core.authenticators",
            "fivetran_tester",
            "target_spark.fivetran.file_reader",
        ),
        lazily=True,
        why="only for keys that sign, and for files that are encrypted",
    ),
    "jwt": LibraryUse(("tap_core.authenticators",), lazily=True, why="only for keys that sign"),
    "backoff": LibraryUse(
        ("tap_core.http", "tap_core.streams"), lazily=True, why="retries are HTTP's business"
    ),
    "sqlalchemy": LibraryUse(
        ("tap_core.sql", "tap_core.typing.sql"), lazily=False, why="an extra: only SQL taps have it"
    ),
    "grpc": LibraryUse(("tap_core.protocols.fivetran",), lazily=False, why="an extra"),
    "grpc_tools": LibraryUse(
        ("tap_core.protocols.fivetran.proto_diff",),
        lazily=True,
        why="a compiler that only the comparison with Fivetran's files needs",
    ),
    "google": LibraryUse(("tap_core.protocols.fivetran",), lazily=False, why="protobuf; an extra"),
    "jinja2": LibraryUse(("tap_core.manifest",), lazily=False, why="an extra"),
    "yaml": LibraryUse(
        ("tap_core.manifest", "tap_core.schema.yaml", "tap_core.schema.yaml_nodes"),
        lazily=False,
        why="an extra",
    ),
    "pytest": LibraryUse(("tap_core.testing",), lazily=False, why="an extra"),
}
"""Library to its home; ``lazily`` means inside functions only (imports that only a type
checker sees do not count there). A library in neither this table
nor LIGHT is refused everywhere."""

LIGHT: frozenset[str] = frozenset({"msgspec", "typing_extensions"})
"""Libraries that every module may import."""
