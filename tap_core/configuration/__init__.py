"""Compatibility package for plugins that import modules of ``singer_sdk.configuration``."""
