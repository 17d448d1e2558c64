"""The components of a low-code manifest, one module per concern."""
