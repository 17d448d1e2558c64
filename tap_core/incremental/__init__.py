"""Incremental sync by a datetime field: formats, time windows, request options, filters."""
