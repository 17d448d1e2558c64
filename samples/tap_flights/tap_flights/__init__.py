"""A sample tap: every flight that left New York in 2013, with its weather, planes and airports."""
