"""Compatibility with plugins of singer_sdk: import alias, deprecated paths and type stubs."""
