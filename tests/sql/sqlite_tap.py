"""A tap of SQLite files, written for singer_sdk; singer_sdk and `tap-core run` both run it."""

from singer_sdk import typing as th
from singer_sdk.sql import SQLConnector, SQLStream, SQLTap


class Connector(SQLConnector):
    def get_sqlalchemy_url(self, config):
        return f"sqlite:///{config['path']}"


class Table(SQLStream):
    connector_class = Connector
    supports_nulls_first = True


class TapFiles(SQLTap):
    name = "tap-files"
    default_stream_class = Table
    config_jsonschema = th.PropertiesList(
        th.Property("path", th.StringType, required=True)
    ).to_dict()


if __name__ == "__main__":
    TapFiles.cli()
