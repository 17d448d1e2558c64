"""Loading of decoded events: rows are spooled, committed in batches, then states are emitted."""
