"""What the Python of others' connectors imports from ``airbyte_cdk``, as far as they need it.

Rules of the room: names, signatures and the order of fields are airbyte-cdk's, so that a
``components.py`` runs as it is; what is behind them is this package's. Nothing else in the house
imports this room but the custom components. What is not here is an `ImportError` that names it.
"""
