"""target-spark as a destination of Fivetran."""
