"""Sample tap for PostgreSQL: a stream for each table and view, without loss of precision."""
