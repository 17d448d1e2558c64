"""A sample tap: every table and view of a PostgreSQL database, with each value as it is there."""
