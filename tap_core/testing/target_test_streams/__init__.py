"""Input of the tests that every target should pass: one file of messages for each."""
