"""`SQLConnector`: what a SQL tap or target knows of its database.

Rules of the room: this class is the sum of its parts: how the database is reached
(`connection`), what it has (`discovery`), how tables are made to fit (`tables`).
"""

from __future__ import annotations

from tap_core.sql.fully_qualified_name import FullyQualifiedName as FullyQualifiedName
from tap_core.sql.table_ddl import TableDDL
from tap_core.sql.types import JSONSchemaToSQL as JSONSchemaToSQL
from tap_core.sql.types import JSONtoSQLHandler as JSONtoSQLHandler
from tap_core.sql.types import SQLToJSONSchema as SQLToJSONSchema

__all__ = [
    "FullyQualifiedName",
    "JSONSchemaToSQL",
    "JSONtoSQLHandler",
    "SQLConnector",
    "SQLToJSONSchema",
]


class SQLConnector(TableDDL):
    """A database: connections, discovery, and tables that fit streams.

    Override `get_sqlalchemy_url` to make the URL from settings of your own, `create_engine`
    to connect in another way, ``sql_to_jsonschema_converter`` and
    ``jsonschema_to_sql_converter`` for types.
    """
