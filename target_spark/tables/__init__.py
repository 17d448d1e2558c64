"""Target tables: names, layout, constraints, commit metadata, quarantine and the table of runs."""
