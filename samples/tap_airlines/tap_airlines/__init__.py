"""Sample tap for a REST API with airlines and their flights, and a service with this API."""
