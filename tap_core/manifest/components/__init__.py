"""Components of an Airbyte low-code manifest, one module per group of component types."""
