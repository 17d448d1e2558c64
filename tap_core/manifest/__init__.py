"""Connectors that are declared in YAML: Airbyte's manifests, run as a tap (extra ``manifest``)."""
