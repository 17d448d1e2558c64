"""Preview of one stream: its requests, its first records, and a check of its schema."""
