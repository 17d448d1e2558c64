"""Fivetran's Partner SDK: gRPC server for taps, and code that destinations share with taps."""
