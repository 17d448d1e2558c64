"""Fivetran's partner interface: any tap as a connector, and what a destination shares with it."""
