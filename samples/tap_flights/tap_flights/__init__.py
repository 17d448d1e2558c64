"""Sample tap: all flights from New York in 2013, with airlines, planes, airports and weather."""
