"""Record processing: selection, conversion to JSON types, flattening and serialization.

Each step compiles a stream's schema once to a function that processes one record.
"""
