"""The Airbyte protocol: source commands, message reader and message writer."""
