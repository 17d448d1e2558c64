"""A small client of Fivetran's interface, for those who write a connector or a destination."""
