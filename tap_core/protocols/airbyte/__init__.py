"""Support for the Airbyte protocol: source commands, message reader and message writer."""
