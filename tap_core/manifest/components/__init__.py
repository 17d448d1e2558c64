"""Components of a low-code manifest, one module per kind of component."""
