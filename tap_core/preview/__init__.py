"""Preview of one stream: its requests, its first records, and its schema beside theirs."""
