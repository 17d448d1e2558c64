"""Load events into tables: buffer rows on disk, commit them in batches, and emit states."""
