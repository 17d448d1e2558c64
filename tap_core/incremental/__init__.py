"""Incremental sync by a date: a cursor's formats, its windows, and what is asked and kept."""
