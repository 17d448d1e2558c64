"""Support for the Singer protocol: command line, message reader and message writer."""
