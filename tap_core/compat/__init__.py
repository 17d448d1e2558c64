"""Import alias, deprecated paths and type stubs that keep singer_sdk's plugins working."""
