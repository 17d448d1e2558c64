"""target-spark as a Fivetran destination: a gRPC server that writes Fivetran's batches."""
