"""Compatibility layer for Python components that import from ``airbyte_cdk``.

Names, signatures and the order of dataclass fields are airbyte-cdk's, so that a connector's
``components.py`` runs unchanged; the implementation is this package's. Only custom components
import this package. Using a name that is not supported raises an ImportError that contains the
name.
"""
