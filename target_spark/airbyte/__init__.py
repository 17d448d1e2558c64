"""target-spark as an Airbyte destination: its commands, configured catalog and states."""
