"""target-spark as a Fivetran destination."""
