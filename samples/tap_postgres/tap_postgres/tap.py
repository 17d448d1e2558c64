"""The tap class and its settings. Its streams are discovered in the database."""

from __future__ import annotations

from tap_core import typing as th
from tap_core.sql import SQLTap
from tap_postgres.client import PostgresStream

__all__ = ["TapPostgres"]


class TapPostgres(SQLTap):
    """Reads the tables and views of a PostgreSQL database.

    The names of the settings are those of MeltanoLabs' tap-postgres.
    """

    name = "tap-postgres"
    default_stream_class = PostgresStream
    config_jsonschema = th.PropertiesList(
        th.Property(
            "sqlalchemy_url",
            th.StringType,
            secret=True,
            description="URL of the database: postgresql://user:password@host:5432/database, with"
            " libpq's parameters such as ?sslmode=verify-full; replaces the five settings below",
        ),
        th.Property("host", th.StringType, description="Host name of the server"),
        th.Property("port", th.IntegerType, default=5432, description="Port of the server"),
        th.Property("user", th.StringType, description="Name of the user"),
        th.Property("password", th.StringType, secret=True, description="Password of the user"),
        th.Property("database", th.StringType, description="Name of the database"),
        th.Property(
            "filter_schemas",
            th.ArrayType(th.StringType),
            description="Schemas to read; by default all except the system's schemas",
        ),
        th.Property(
            "dates_as_string",
            th.BooleanType,
            default=False,
            description="Write dates and date-times as the server's text, including infinity and"
            " years before Christ; by default such values become the first or last of ISO 8601",
        ),
        th.Property(
            "json_as_object",
            th.BooleanType,
            default=False,
            description="Declare json and jsonb columns as objects; by default they have any type",
        ),
        th.Property(
            "replication_slot_name",
            th.StringType,
            default="tappostgres",
            description="Name of the logical replication slot of LOG_BASED streams, created by the"
            " first run; each pipeline needs a separate slot",
        ),
        th.Property(
            "publication_name",
            th.StringType,
            default="tappostgres",
            description="Name of the publication that has the tables of LOG_BASED streams",
        ),
    ).to_dict()

    def setup_mapper(self) -> None:
        """Create the stream maps after the streams, which add columns to the catalog."""
        _ = self.streams if self.input_catalog is not None else None
        super().setup_mapper()


if __name__ == "__main__":
    TapPostgres.cli()
