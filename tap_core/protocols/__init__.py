"""Command-line entry points and protocol support, one package per protocol."""
