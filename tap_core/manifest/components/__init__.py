"""The components of a manifest, a module for each concern."""
