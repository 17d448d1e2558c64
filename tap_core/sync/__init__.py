"""From a plan to events."""
