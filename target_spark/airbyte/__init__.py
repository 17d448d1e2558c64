"""target-spark as an Airbyte destination."""
