"""A sample tap of a REST API: airlines, and the flights of each, in a service of its own."""
