"""Tables as the loader sees them: identifiers, layout, constraints, quarantine."""
