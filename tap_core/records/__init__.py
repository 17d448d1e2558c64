"""Record processing: functions that compile a schema to a function of one record."""
