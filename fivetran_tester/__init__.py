"""Test client of Fivetran's interface, for authors of connectors and destinations."""
