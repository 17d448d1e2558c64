"""The tap: its settings. What it reads is found in the database."""

from __future__ import annotations

from tap_core import typing as th
from tap_core.sql import SQLTap
from tap_postgres.client import PostgresStream

__all__ = ["TapPostgres"]


class TapPostgres(SQLTap):
    """Reads the tables and views of a PostgreSQL database.

    The settings are named as those of MeltanoLabs' tap of the same name.
    """

    name = "tap-postgres"
    default_stream_class = PostgresStream
    config_jsonschema = th.PropertiesList(
        th.Property(
            "sqlalchemy_url",
            th.StringType,
            secret=True,
            description="postgresql://user:password@host:5432/database, with whatever else libpq"
            " knows, such as ?sslmode=verify-full; or the five settings below",
        ),
        th.Property("host", th.StringType, description="Where the server is"),
        th.Property("port", th.IntegerType, default=5432, description="Its port"),
        th.Property("user", th.StringType, description="Who reads"),
        th.Property("password", th.StringType, secret=True, description="The user's password"),
        th.Property("database", th.StringType, description="Which database to read"),
        th.Property(
            "filter_schemas",
            th.ArrayType(th.StringType),
            description="Read these schemas only; without it all but the system's own",
        ),
        th.Property(
            "dates_as_string",
            th.BooleanType,
            default=False,
            description="Give dates and times as the server writes them, infinity and years"
            " before Christ included; else such values become the first or last that ISO 8601 has",
        ),
        th.Property(
            "json_as_object",
            th.BooleanType,
            default=False,
            description="Declare json and jsonb columns as objects; else as any kind of value",
        ),
        th.Property(
            "replication_slot_name",
            th.StringType,
            default="tappostgres",
            description="Name of the logical replication slot of LOG_BASED streams, created by the"
            " first run; each pipeline needs a slot of its own",
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
