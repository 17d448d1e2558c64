"""Support for the Singer, Airbyte and Fivetran protocols, with the command lines of plugins."""
