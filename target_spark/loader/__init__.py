"""Load events into tables: spool rows, commit them in batches, then emit the states they cover."""
