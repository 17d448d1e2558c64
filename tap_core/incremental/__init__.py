"""Incremental sync by a date cursor: formats, time windows, request options, record filters."""
