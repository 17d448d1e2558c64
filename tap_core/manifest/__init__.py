"""Airbyte's low-code manifests (declarative YAML connectors), run as a tap (extra ``manifest``)."""
