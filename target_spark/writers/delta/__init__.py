"""Delta tables: writer, transactions, layout, maintenance."""
