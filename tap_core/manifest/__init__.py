"""Taps for Airbyte's low-code connectors: declarative YAML manifests (extra ``manifest``)."""
