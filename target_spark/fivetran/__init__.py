"""Fivetran destination: a gRPC server that writes Fivetran's batches to tables with Spark."""
