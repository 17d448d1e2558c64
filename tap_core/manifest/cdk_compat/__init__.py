"""Compatibility layer for Python components that import from ``airbyte_cdk``.

Names, signatures and the order of dataclass fields are airbyte-cdk's, so that a connector's
``components.py`` runs unchanged, without airbyte-cdk. Only custom components import this package.
Using an airbyte-cdk name that is not supported raises an ImportError that contains the name.
"""
