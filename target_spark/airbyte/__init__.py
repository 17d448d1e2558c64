"""target-spark as a destination of the Airbyte protocol."""
