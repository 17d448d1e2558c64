"""Fivetran's partner interface: taps as connectors, and code that destinations share with them."""
