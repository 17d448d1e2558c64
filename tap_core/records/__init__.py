"""What is done to records: pure functions of a schema that give functions of a row."""
