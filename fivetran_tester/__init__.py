"""Test client that calls Fivetran connectors and destinations, for their authors."""
