"""`SQLConnector`: access of a SQL tap or target to its database.

The class combines connections (`tap_core.sql.connection`), discovery
(`tap_core.sql.discovery`) and DDL (`tap_core.sql.column_ddl`, `tap_core.sql.table_ddl`).
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
    """Connector to a database: connections, discovery and DDL.

    Override `get_sqlalchemy_url` to build the URL from other settings, `create_engine` to
    connect differently, and ``sql_to_jsonschema_converter`` or ``jsonschema_to_sql_converter``
    to convert types differently.
    """
