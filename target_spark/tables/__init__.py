"""Model of target tables: identifiers, layout, constraints and quarantine."""
