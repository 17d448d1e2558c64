"""Message files for the standard target tests, one file per test."""
