"""target-spark as an Airbyte destination: commands, configured catalog, states and error traces."""
