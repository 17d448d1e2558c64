"""Incremental sync by a datetime cursor: formats, time windows, request options, filters."""
